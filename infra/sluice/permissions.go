package sluice

import (
	"github.com/aws/aws-cdk-go/awscdk/v2/awsiam"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslogs"
	"github.com/aws/jsii-runtime-go"
)

// GrantSubmit lets a producer submit tasks, with an idempotency key too, and read what became of them. It
// cannot change or remove a record.
func (q *Queue) GrantSubmit(grantee awsiam.IGrantable) {
	principal := grantee.GrantPrincipal()
	for _, statement := range []awsiam.PolicyStatement{
		allow("SluiceSubmit", []string{"s3:PutObject"},
			q.names.objects(inboxPrefix), q.names.objects(payloadsPrefix)),
		// A large input is written marked to expire, should its submission never come.
		allow("SluiceMarkPayloads", []string{"s3:PutObjectTagging"}, q.names.objects(payloadsPrefix)),
		allow("SluiceReadTasks", []string{"s3:GetObject"},
			q.names.objects(inboxPrefix), q.names.objects(tasksPrefix), q.names.objects(payloadsPrefix)),
		// A keyed submit that finds an older task takes its own submission back, by version.
		allow("SluiceWithdraw", []string{"s3:DeleteObjectVersion"}, q.names.objects(inboxPrefix)),
		q.tellMissingFromDenied("SluiceTellMissingFromDenied"),
	} {
		principal.AddToPrincipalPolicy(statement)
	}
}

// GrantLimiter lets a function, such as a handler in another language, ask the limiter: the requests of
// operators are among those that it then may make.
func (q *Queue) GrantLimiter(grantee awsiam.IGrantable) {
	grantee.GrantPrincipal().AddToPrincipalPolicy(
		allow("SluiceAskLimiter", []string{"lambda:InvokeFunction"}, *q.Limiter.FunctionArn()))
}

// claimTasks are the claim function's rights on the bucket.
func (q *Queue) claimTasks() []awsiam.PolicyStatement {
	return []awsiam.PolicyStatement{
		allow("ReadTasks", []string{"s3:GetObject"},
			q.names.objects(inboxPrefix), q.names.objects(tasksPrefix), q.names.objects(payloadsPrefix)),
		// Handlers may submit further tasks: that is the right on inbox/.
		allow("WriteTasks", []string{"s3:PutObject"},
			q.names.objects(inboxPrefix), q.names.objects(tasksPrefix), q.names.objects(payloadsPrefix), q.names.objects(quarantinePrefix)),
		allow("TagFinishedTasks", []string{"s3:PutObjectTagging"},
			q.names.objects(tasksPrefix), q.names.objects(payloadsPrefix)),
		// What is no submission is copied aside in the version that was read.
		allow("CopyAside", []string{"s3:GetObjectVersion"}, q.names.objects(inboxPrefix)),
		// By version only: a plain delete would leave a delete marker, and could remove what it never saw.
		allow("RemoveSubmissions", []string{"s3:DeleteObjectVersion"}, q.names.objects(inboxPrefix)),
		q.tellMissingFromDenied("TellMissingFromDenied"),
	}
}

// limitRates are the rights of a limiter on its table. A request over several items is a transaction of
// updates, for which DynamoDB asks for the right to update.
func (q *Queue) limitRates() awsiam.PolicyStatement {
	return allow("LimitRates", []string{
		"dynamodb:GetItem", "dynamodb:BatchGetItem", "dynamodb:Query", "dynamodb:UpdateItem", "dynamodb:PutItem",
	}, q.names.tableArn)
}

// leavePlaces is the right to remove a task from the index of those who wait.
func (q *Queue) leavePlaces() awsiam.PolicyStatement {
	return allow("LeavePlaces", []string{"dynamodb:DeleteItem"}, q.names.tableArn)
}

// resetPolicies are the rights to read the registry of policies, to replace its entries, and to keep
// the index of parked tasks.
func (q *Queue) resetPolicies() awsiam.PolicyStatement {
	return allow("ResetPolicies", []string{
		"dynamodb:GetItem", "dynamodb:Query", "dynamodb:PutItem", "dynamodb:UpdateItem", "dynamodb:DeleteItem",
	}, q.names.tableArn)
}

// sweepTasks are the sweep's rights on the bucket: it reads tasks, writes nothing but how far it came, and
// removes versions of records that have expired.
func (q *Queue) sweepTasks() []awsiam.PolicyStatement {
	return []awsiam.PolicyStatement{
		allow("ReadTasks", []string{"s3:GetObject"}, q.names.objects(inboxPrefix), q.names.objects(tasksPrefix)),
		allow("KeepCursor", []string{"s3:GetObject", "s3:PutObject"}, q.names.objects(sweepPrefix)),
		// It lists inbox/ as well.
		q.tellMissingFromDenied("ListTasks"),
		allow("ListVersions", []string{"s3:ListBucketVersions"}, q.names.bucketArn),
		// By version only: a record that is not expired cannot be taken for one that is.
		allow("RemoveExpiredRecords", []string{"s3:DeleteObjectVersion"}, q.names.objects(tasksPrefix)),
	}
}

// handOver is the right to start the other claim functions for tasks of their types.
func handOver(functionArns ...string) awsiam.PolicyStatement {
	return allow("HandOver", []string{"lambda:InvokeFunction"}, functionArns...)
}

func (q *Queue) startClaim() awsiam.PolicyStatement {
	return allow("StartClaim", []string{"lambda:InvokeFunction"}, q.names.claimArn)
}

// tellMissingFromDenied makes S3 answer 404 for an object that is not there. Without the right to list the
// bucket it answers 403, and a task that is gone would look like a broken role. A condition on the prefix
// would defeat it: a GET has no prefix.
func (q *Queue) tellMissingFromDenied(sid string) awsiam.PolicyStatement {
	return allow(sid, []string{"s3:ListBucket"}, q.names.bucketArn)
}

// armWakeUps are the rights to create and remove schedules in the group, and to hand them the one role
// they may run under.
func (q *Queue) armWakeUps(schedulerRole awsiam.Role) []awsiam.PolicyStatement {
	passRole := allow("PassSchedulerRole", []string{"iam:PassRole"}, *schedulerRole.RoleArn())
	passRole.AddCondition(jsii.String("StringEquals"), map[string]any{"iam:PassedToService": "scheduler.amazonaws.com"})

	return []awsiam.PolicyStatement{
		allow("ArmWakeUps",
			[]string{"scheduler:CreateSchedule", "scheduler:GetSchedule", "scheduler:DeleteSchedule"}, q.names.schedulesArn),
		passRole,
	}
}

// setAsideDeadLetters is the right that Lambda uses, under the function's role, for its on-failure queue.
func (q *Queue) setAsideDeadLetters() awsiam.PolicyStatement {
	return allow("SetAsideDeadLetters", []string{"sqs:SendMessage"}, *q.DeadLetters.QueueArn())
}

// writeLogs is the right to write to one log group, where the managed policy that CDK attaches by default
// would allow to create any group and write to all.
func writeLogs(logs awslogs.ILogGroup) awsiam.PolicyStatement {
	return allow("WriteLogs", []string{"logs:CreateLogStream", "logs:PutLogEvents"}, *logs.LogGroupArn())
}

// functionRole is an execution role with exactly these rights.
func (q *Queue) functionRole(id string, statements []awsiam.PolicyStatement) awsiam.Role {
	role := awsiam.NewRole(q, &id, &awsiam.RoleProps{
		AssumedBy:      awsiam.NewServicePrincipal(jsii.String("lambda.amazonaws.com"), nil),
		InlinePolicies: inlinePolicy(statements),
	})
	explain(role, "AwsSolutions-IAM5", ownPatternsReason, ownPatterns)

	return role
}

// joinNetwork are the rights by which Lambda connects a function to a VPC. They are Lambda's to use, under
// the function's role; the code in the function is denied them.
func joinNetwork(functionArn string) []awsiam.PolicyStatement {
	actions := []string{
		"ec2:CreateNetworkInterface", "ec2:DescribeNetworkInterfaces", "ec2:DescribeSubnets",
		"ec2:DeleteNetworkInterface", "ec2:AssignPrivateIpAddresses", "ec2:UnassignPrivateIpAddresses",
	}
	deny := awsiam.NewPolicyStatement(&awsiam.PolicyStatementProps{
		Sid:        jsii.String("NotByItself"),
		Effect:     awsiam.Effect_DENY,
		Actions:    jsii.Strings(actions...),
		Resources:  jsii.Strings("*"),
		Conditions: &map[string]any{"ArnEquals": map[string]any{"lambda:SourceFunctionArn": functionArn}},
	})

	return []awsiam.PolicyStatement{allow("JoinNetwork", actions, "*"), deny}
}

// inlinePolicy puts the rights into the role itself, so that they exist as soon as the role does.
func inlinePolicy(statements []awsiam.PolicyStatement) *map[string]awsiam.PolicyDocument {
	return &map[string]awsiam.PolicyDocument{
		"Sluice": awsiam.NewPolicyDocument(&awsiam.PolicyDocumentProps{Statements: &statements}),
	}
}

func allow(sid string, actions []string, resources ...string) awsiam.PolicyStatement {
	return awsiam.NewPolicyStatement(&awsiam.PolicyStatementProps{
		Sid:       &sid,
		Actions:   jsii.Strings(actions...),
		Resources: jsii.Strings(resources...),
	})
}
