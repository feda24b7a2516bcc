package sluice_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsec2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsiam"
	"github.com/aws/jsii-runtime-go"

	"github.com/sluice-dev/sluice/infra/sluice"
)

// several has two further claim functions, one of them in a network and with a right of its own.
var several = sync.OnceValue(func() resources {
	return synthIn(map[string]any{"stack": "Several"}, func(app awscdk.App) sluice.Props {
		networks := awscdk.NewStack(app, jsii.String("Networks"), nil)
		vpc := awsec2.Vpc_FromVpcAttributes(networks, jsii.String("VPC"), &awsec2.VpcAttributes{
			VpcId:             jsii.String("vpc-0123456789abcdef0"),
			AvailabilityZones: jsii.Strings("us-east-1a"),
			PrivateSubnetIds:  jsii.Strings("subnet-0123456789abcdef0"),
		})
		group := awsec2.SecurityGroup_FromSecurityGroupId(networks, jsii.String("Group"), jsii.String("sg-0123456789abcdef0"), nil)
		secret := awsiam.NewPolicyStatement(&awsiam.PolicyStatementProps{
			Actions: jsii.Strings("secretsmanager:GetSecretValue"), Resources: jsii.Strings("arn:aws:secretsmanager:us-east-1:123456789012:secret:db"),
		})

		return sluice.Props{
			Name: "several",
			Claims: []sluice.ClaimProps{
				{Name: "mail", Types: []string{"send_mail"}, FunctionProps: sluice.FunctionProps{ReservedConcurrency: 5}},
				{Name: "render", Types: []string{"render", "resize"}, FunctionProps: sluice.FunctionProps{
					MemoryMiB: 2048,
					VPC:       &sluice.VPCProps{VPC: vpc, SecurityGroups: []awsec2.ISecurityGroup{group}},
					Policies:  []awsiam.PolicyStatement{secret},
				}},
			},
		}
	})
})

const severalArn = "arn:{Partition}:lambda:{Region}:{AccountId}:function:several-claim"

func TestEachClaimFunctionHandsOverWhatOthersServe(t *testing.T) {
	t.Parallel()
	for id, want := range map[string]struct{ name, routes, handOver string }{
		"Claim": {
			"several-claim",
			`{"render":"` + severalArn + `-render","resize":"` + severalArn + `-render","send_mail":"` + severalArn + `-mail"}`,
			severalArn + "-mail " + severalArn + "-render",
		},
		"Claimmail": {
			"several-claim-mail",
			`{"*":"` + severalArn + `","render":"` + severalArn + `-render","resize":"` + severalArn + `-render"}`,
			severalArn + " " + severalArn + "-render",
		},
		"Claimrender": {
			"several-claim-render",
			`{"*":"` + severalArn + `","send_mail":"` + severalArn + `-mail"}`,
			severalArn + " " + severalArn + "-mail",
		},
	} {
		f := several().named(t, "AWS::Lambda::Function", id)
		if got := text(f.at(t, "FunctionName")); got != want.name {
			t.Errorf("%s: is called %s, want %s", id, got, want.name)
		}
		if got := text(f.at(t, "Environment", "Variables", "SLUICE_ROUTES")); got != want.routes {
			t.Errorf("%s: routes\n%s, want\n%s", id, got, want.routes)
		}
		// Wake-ups come back to the function that asked for them.
		if got := text(f.at(t, "Environment", "Variables", "SLUICE_CLAIM_FUNCTION_ARN")); got != strings.Replace(severalArn, "several-claim", want.name, 1) {
			t.Errorf("%s: is woken as %s", id, got)
		}
		if got := rolePolicies(t, several())[id+"Role"]; !slices.Contains(got, "lambda:InvokeFunction on "+want.handOver) {
			t.Errorf("%s: has no right to invoke %s:\n%s", id, want.handOver, strings.Join(got, "\n"))
		}
	}
}

func TestTheSchedulerWakesEveryClaimFunctionAndTheBucketStartsTheFirst(t *testing.T) {
	t.Parallel()
	want := "lambda:InvokeFunction on " + severalArn + " " + severalArn + "-mail " + severalArn + "-render"
	if got := rolePolicies(t, several())["SchedulerRole"]; !slices.Contains(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), want)
	}
	if got := rolePolicies(t, several())["SweepRole"]; !slices.Contains(got, "lambda:InvokeFunction on "+severalArn) {
		t.Errorf("the sweep may not start the first function: %s", strings.Join(got, "\n"))
	}
	b := several().only(t, "AWS::S3::Bucket", "Bucket")
	if got := text(b.at(t, "NotificationConfiguration", "LambdaConfigurations", 0, "Function")); got != "{Claim}" {
		t.Errorf("the bucket starts %s", got)
	}
	for _, id := range []string{"ClaimAsync", "ClaimmailAsync", "ClaimrenderAsync"} {
		async := several().named(t, "AWS::Lambda::EventInvokeConfig", id)
		if got := text(async.at(t, "DestinationConfig", "OnFailure", "Destination")); got != "{DeadLetters}" {
			t.Errorf("%s: %s", id, got)
		}
	}
}

func TestAFunctionHasItsOwnSettingsRightsAndNetwork(t *testing.T) {
	t.Parallel()
	render := several().named(t, "AWS::Lambda::Function", "Claimrender")
	if got := text(render.at(t, "MemorySize")); got != "2048" {
		t.Errorf("memory: %s", got)
	}
	if got := text(render.at(t, "VpcConfig")); got != `{"SecurityGroupIds":["sg-0123456789abcdef0"],"SubnetIds":["subnet-0123456789abcdef0"]}` {
		t.Errorf("network: %s", got)
	}
	rights := rolePolicies(t, several())["ClaimrenderRole"]
	const network = "ec2:AssignPrivateIpAddresses ec2:CreateNetworkInterface ec2:DeleteNetworkInterface " +
		"ec2:DescribeNetworkInterfaces ec2:DescribeSubnets ec2:UnassignPrivateIpAddresses on *"
	for _, want := range []string{
		"secretsmanager:GetSecretValue on arn:aws:secretsmanager:us-east-1:123456789012:secret:db",
		network,
		"Deny " + network + ` if {"ArnEquals":{"lambda:SourceFunctionArn":"` + severalArn + `-render"}}`,
	} {
		if !slices.ContainsFunc(rights, func(line string) bool { return plain(line) == want }) {
			t.Errorf("want %s, got\n%s", want, strings.Join(rights, "\n"))
		}
	}
	for _, id := range []string{"Claim", "Claimmail", "Limiter", "Reset", "Sweep"} {
		if network := several().named(t, "AWS::Lambda::Function", id).at(t, "VpcConfig"); network != nil {
			t.Errorf("%s: is in the network %v", id, network)
		}
		for _, line := range rolePolicies(t, several())[id+"Role"] {
			if strings.Contains(line, "ec2:") || strings.Contains(line, "secretsmanager:") {
				t.Errorf("%s: has the right of another: %s", id, line)
			}
		}
	}
	if got := text(several().named(t, "AWS::Lambda::Function", "Claimmail").at(t, "ReservedConcurrentExecutions")); got != "5" {
		t.Errorf("reserved concurrency: %s", got)
	}
}

func TestItMustBeClearWhichFunctionServesATaskType(t *testing.T) {
	t.Parallel()
	defer func() {
		message := fmt.Sprint(recover())
		for _, want := range []string{
			`Claims[0].Name is "Not A Name"`, `Claims[0].Types is empty`, `Claims[2].Name is "mail": another`,
			`Claims[2].Types is not unique: "send_mail" is served by "mail" as well`, `Claims[2].Types is of no use: "*"`,
			`Claims[1].MemoryMiB is 1`, `Claims[2].VPC is without a VPC`,
		} {
			if !strings.Contains(message, want) {
				t.Errorf("the message does not say %s: %s", want, message)
			}
		}
	}()
	synth(nil, sluice.Props{Claims: []sluice.ClaimProps{
		{Name: "Not A Name"},
		{Name: "mail", Types: []string{"send_mail"}, FunctionProps: sluice.FunctionProps{MemoryMiB: 1}},
		{Name: "mail", Types: []string{"send_mail", "*"}, FunctionProps: sluice.FunctionProps{VPC: &sluice.VPCProps{}}},
	}})
	t.Error("accepted")
}
