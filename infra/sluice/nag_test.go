package sluice_test

import (
	"testing"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/assertions"
	"github.com/aws/aws-cdk-go/awscdk/v2/awss3"
	"github.com/aws/jsii-runtime-go"
	"github.com/cdklabs/cdk-nag-go/cdknag/v2"

	"github.com/sluice-dev/sluice/infra/sluice"
)

// The rules of cdk-nag find nothing but what the construct explains in the template.
func TestCDKNagFindsNothing(t *testing.T) {
	t.Parallel()
	synthesis.Lock()
	defer synthesis.Unlock()
	app := awscdk.NewApp(&awscdk.AppProps{AnalyticsReporting: jsii.Bool(false)})
	stock, _ := sluice.NewStack(app, sluice.Props{Assets: assets})
	logged := awscdk.NewStack(app, jsii.String("Logged"), nil)
	sluice.New(logged, "Queue", &sluice.Props{
		Assets:     assets,
		AccessLogs: awss3.NewBucket(logged, jsii.String("AccessLogs"), &awss3.BucketProps{EnforceSSL: jsii.Bool(true)}),
		Claims:     []sluice.ClaimProps{{Name: "mail", Types: []string{"send_mail"}}},
	})
	awscdk.Aspects_Of(app).Add(cdknag.NewAwsSolutionsChecks(nil), nil)
	for _, stack := range []awscdk.Stack{stock, logged} {
		found := assertions.Annotations_FromStack(stack)
		for _, m := range *found.FindError(jsii.String("*"), assertions.Match_AnyValue()) {
			t.Errorf("error: %v", m.Entry.Data) //nolint:staticcheck // the binding for Go has no other way to the text yet
		}
		for _, m := range *found.FindWarning(jsii.String("*"), assertions.Match_AnyValue()) {
			t.Errorf("warning: %v", m.Entry.Data) //nolint:staticcheck // the binding for Go has no other way to the text yet
		}
	}
}
