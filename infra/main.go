// Command infra is the CDK app of the stock stack: one queue with the stock claim function. To deploy a
// queue with handlers of your own, copy these few lines and pass your code in Props.Claim.
//
//	make build
//	cd infra && npx aws-cdk deploy
package main

import (
	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/jsii-runtime-go"

	"github.com/sluice-dev/sluice/infra/sluice"
)

func main() {
	defer jsii.Close()

	app := awscdk.NewApp(nil)
	sluice.NewStack(app, sluice.Props{})
	app.Synth(nil)
}
