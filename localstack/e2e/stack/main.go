// Command stack is the CDK app that the end-to-end suite is run against: the stock stack as it is, and
// beside it a second claim function and two handlers in Python.
package main

import (
	"fmt"
	"os"
	"runtime"
	"time"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsiam"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
	"github.com/aws/aws-cdk-go/awscdk/v2/awssqs"
	"github.com/aws/jsii-runtime-go"

	"github.com/sluice-dev/sluice/infra/sluice"
	"github.com/sluice-dev/sluice/shared/handlers"
)

func main() {
	defer jsii.Close()

	app := awscdk.NewApp(nil)
	target, _ := app.Node().TryGetContext(jsii.String("target")).(string)
	// The suite serves what its http.request tasks call. Only a local cloud can reach it there.
	hosts := map[string]string{"SLUICE_HTTP_HOSTS": "localhost,127.0.0.1"}
	// A queue is told of the end of every task. The context names it before its stack is there; the CDK
	// command line knows account and Region.
	ends := "sluice-e2e-notices"
	app.Node().SetContext(jsii.String("notices"), fmt.Sprintf("*=arn:aws:sqs:%s:%s:%s", os.Getenv("CDK_DEFAULT_REGION"), os.Getenv("CDK_DEFAULT_ACCOUNT"), ends))
	stack, queue := sluice.NewStack(app, sluice.Props{
		Ephemeral: true,
		// MiniStack knows no alarms that calculate.
		Alarms: sluice.AlarmProps{Off: target == "ministack"},
		Claim:  sluice.FunctionProps{Environment: hosts},
		// A second claim function. Its invocations are short, and with them the leases of tasks whose process
		// dies.
		Claims: []sluice.ClaimProps{{
			Name: "http", Types: []string{handlers.TypeHTTPRequest},
			FunctionProps: sluice.FunctionProps{Timeout: 90 * time.Second, Environment: hosts},
		}},
		// The suite does not wait until a task is long overdue, nor for the next day.
		Sweep: sluice.FunctionProps{Environment: map[string]string{"SLUICE_SWEEP_GRACE": "1s", "SLUICE_RETENTION_EVERY": "1ms"}},
	})
	notices := awssqs.NewQueue(stack, jsii.String("Notices"), &awssqs.QueueProps{QueueName: &ends})
	awscdk.NewCfnOutput(stack, jsii.String("NoticesQueueUrl"), &awscdk.CfnOutputProps{Value: notices.QueueUrl()})
	addPythonHandler(stack, queue, "PythonHandler", "examples/python-handler", nil)
	asks := addPythonHandler(stack, queue, "LimiterPython", "examples/limiter-python", &map[string]*string{
		"SLUICE_LIMITER_FUNCTION": queue.Limiter.FunctionName(),
	})
	queue.GrantLimiter(asks)
	if target == "ministack" {
		workAroundMiniStack(stack, queue)
	}
	app.Synth(nil)
}

// addPythonHandler adds a handler that is a Lambda function of its own, and lets the queue call it.
func addPythonHandler(stack awscdk.Stack, queue *sluice.Queue, id, code string, environment *map[string]*string) awslambda.Function {
	handler := awslambda.NewFunction(stack, &id, &awslambda.FunctionProps{
		Description:  jsii.String("A Sluice handler in Python, called by lambda.invoke tasks"),
		Runtime:      awslambda.Runtime_PYTHON_3_13(),
		Architecture: hostArchitecture(),
		Handler:      jsii.String("handler.handler"),
		Code:         awslambda.Code_FromAsset(&code, nil),
		Timeout:      awscdk.Duration_Seconds(jsii.Number(30)),
		Environment:  environment,
	})
	handler.GrantInvoke(queue.Claim)
	awscdk.NewCfnOutput(stack, jsii.String(id+"Name"), &awscdk.CfnOutputProps{Value: handler.FunctionName()})

	return handler
}

func hostArchitecture() awslambda.Architecture {
	if runtime.GOARCH == "arm64" {
		return awslambda.Architecture_ARM_64()
	}

	return awslambda.Architecture_X86_64()
}

// workAroundMiniStack adds the two rights that MiniStack's IAM asks for and AWS does not: it judges every
// schedule as one of the group "default", whatever its group, and the first object of DeleteObjects as if no
// version of it were named.
func workAroundMiniStack(stack awscdk.Stack, queue *sluice.Queue) {
	for _, arms := range []awslambda.Function{queue.Claim, queue.Claims["http"], queue.Reset} {
		arms.AddToRolePolicy(awsiam.NewPolicyStatement(&awsiam.PolicyStatementProps{
			Actions: jsii.Strings("scheduler:CreateSchedule", "scheduler:GetSchedule", "scheduler:DeleteSchedule"),
			Resources: jsii.Strings(*stack.FormatArn(&awscdk.ArnComponents{
				Service: jsii.String("scheduler"), Resource: jsii.String("schedule"), ResourceName: jsii.String("default/*"),
			})),
		}))
	}
	queue.Sweep.AddToRolePolicy(awsiam.NewPolicyStatement(&awsiam.PolicyStatementProps{
		Actions:   jsii.Strings("s3:DeleteObject"),
		Resources: jsii.Strings(*queue.Bucket.ArnForObjects(jsii.String("tasks/*"))),
	}))
}
