package sluice_test

import (
	"time"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
	"github.com/aws/aws-cdk-go/awscdk/v2/awssns"
	"github.com/aws/aws-cdk-go/awscdk/v2/awssqs"
	"github.com/aws/jsii-runtime-go"

	"github.com/sluice-dev/sluice/infra/sluice"
)

// A queue in a stack of your own: your handlers, of which those that render get a function with more
// memory, and those that call a vendor one with a cap on how many run at once.
func ExampleNew() { //nolint:testableexamples // it is there to compile: it needs built functions
	app := awscdk.NewApp(nil)
	stack := awscdk.NewStack(app, jsii.String("Orders"), nil)

	ended := awssqs.NewQueue(stack, jsii.String("Ended"), nil)
	queue := sluice.New(stack, "Queue", &sluice.Props{
		Name: "orders",
		Claim: sluice.FunctionProps{
			Code: awslambda.Code_FromAsset(jsii.String("dist/claim"), nil),
		},
		Claims: []sluice.ClaimProps{
			{Name: "render", Types: []string{"render", "resize"}, FunctionProps: sluice.FunctionProps{MemoryMiB: 2048}},
			{Name: "vendor", Types: []string{"charge"}, FunctionProps: sluice.FunctionProps{ReservedConcurrency: 20}},
		},
		Retention: 90 * 24 * time.Hour,
		Notices:   map[string]awssqs.IQueue{"charge": ended},
		Alarms: sluice.AlarmProps{
			Topic: awssns.Topic_FromTopicArn(stack, jsii.String("Ops"), jsii.String("arn:aws:sns:eu-west-1:123456789012:ops")),
		},
	})

	shop := awslambda.Function_FromFunctionName(stack, jsii.String("Shop"), jsii.String("shop"))
	queue.GrantSubmit(shop)
	app.Synth(nil)
}
