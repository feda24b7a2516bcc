package sluice_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
)

// The rights of each role, whole: a right that is added or widened has to be added here, where a reviewer
// sees it. {Partition} and the like stand for references.
const (
	bucket   = "arn:{Partition}:s3:::sluice-{AccountId}-{Region}"
	schedule = "arn:{Partition}:scheduler:{Region}:{AccountId}:schedule/sluice/*"
	table    = "arn:{Partition}:dynamodb:{Region}:{AccountId}:table/sluice-limits"
	claim    = "arn:{Partition}:lambda:{Region}:{AccountId}:function:sluice-claim"
)

var rights = map[string][]string{
	"ClaimRole": {
		"s3:GetObject on " + bucket + "/inbox/* " + bucket + "/payloads/* " + bucket + "/tasks/*",
		"s3:GetObjectVersion on " + bucket + "/inbox/*",
		"s3:PutObject on " + bucket + "/inbox/* " + bucket + "/payloads/* " + bucket + "/quarantine/* " + bucket + "/tasks/*",
		"s3:PutObjectTagging on " + bucket + "/payloads/* " + bucket + "/tasks/*",
		"s3:DeleteObjectVersion on " + bucket + "/inbox/*",
		"s3:ListBucket on " + bucket,
		"scheduler:CreateSchedule scheduler:DeleteSchedule scheduler:GetSchedule on " + schedule,
		`iam:PassRole on {SchedulerRole} if {"StringEquals":{"iam:PassedToService":"scheduler.amazonaws.com"}}`,
		"dynamodb:BatchGetItem dynamodb:GetItem dynamodb:PutItem dynamodb:Query dynamodb:UpdateItem on " + table,
		"dynamodb:DeleteItem on " + table,
		"sqs:SendMessage on {DeadLetters}",
		"logs:CreateLogStream logs:PutLogEvents on {ClaimLogs}",
	},
	"LimiterRole": {
		"dynamodb:BatchGetItem dynamodb:GetItem dynamodb:PutItem dynamodb:Query dynamodb:UpdateItem on " + table,
		"logs:CreateLogStream logs:PutLogEvents on {LimiterLogs}",
	},
	"ResetRole": {
		"scheduler:CreateSchedule scheduler:DeleteSchedule scheduler:GetSchedule on " + schedule,
		`iam:PassRole on {SchedulerRole} if {"StringEquals":{"iam:PassedToService":"scheduler.amazonaws.com"}}`,
		"dynamodb:DeleteItem dynamodb:GetItem dynamodb:PutItem dynamodb:Query dynamodb:UpdateItem on " + table,
		"logs:CreateLogStream logs:PutLogEvents on {ResetLogs}",
	},
	"SweepRole": {
		"s3:GetObject on " + bucket + "/inbox/* " + bucket + "/tasks/*",
		"s3:GetObject s3:PutObject on " + bucket + "/sweep/*",
		"s3:ListBucket on " + bucket,
		"s3:ListBucketVersions on " + bucket,
		"s3:DeleteObjectVersion on " + bucket + "/tasks/*",
		"lambda:InvokeFunction on " + claim,
		"logs:CreateLogStream logs:PutLogEvents on {SweepLogs}",
	},
	"SchedulerRole": {
		"lambda:InvokeFunction on " + claim,
		"sqs:SendMessage on {DeadLetters}",
	},
	"Producer": {
		"s3:PutObject on " + bucket + "/inbox/* " + bucket + "/payloads/*",
		"s3:PutObjectTagging on " + bucket + "/payloads/*",
		"s3:GetObject on " + bucket + "/inbox/* " + bucket + "/payloads/* " + bucket + "/tasks/*",
		"s3:DeleteObjectVersion on " + bucket + "/inbox/*",
		"s3:ListBucket on " + bucket,
	},
	"Handler": {
		"lambda:InvokeFunction on {Limiter}",
	},
}

func TestEachRoleHasExactlyTheRightsListedHere(t *testing.T) {
	t.Parallel()
	got := rolePolicies(t, stock())
	for _, role := range slices.Sorted(maps.Keys(rights)) {
		want := slices.Sorted(slices.Values(rights[role]))
		t.Log(readable(role, got[role])) // make iam prints it
		if !slices.Equal(got[role], want) {
			t.Errorf("%s: want\n  %s", role, strings.Join(want, "\n  "))
		}
		delete(got, role)
	}
	for role := range got {
		t.Errorf("a role that this test does not know: %s", role)
	}
}

func TestHandlersNamedByTheContextMayBeInvokedAndNoOthers(t *testing.T) {
	t.Parallel()
	var invoked []string
	for _, line := range rolePolicies(t, custom())["ClaimRole"] {
		if strings.HasPrefix(line, "lambda:InvokeFunction") {
			invoked = append(invoked, line)
		}
	}
	function := "arn:{Partition}:lambda:{Region}:{AccountId}:function:"
	want := []string{
		"lambda:InvokeFunction on " + function + "mailer " + function + "mailer:*",
		"lambda:InvokeFunction on " + function + "reporter " + function + "reporter:*",
	}
	if !slices.Equal(invoked, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(invoked, "\n"), strings.Join(want, "\n"))
	}
}

func TestNoManagedPolicyWidensARole(t *testing.T) {
	t.Parallel()
	for _, role := range stock().ofType("AWS::IAM::Role") {
		if managed := role.Properties["ManagedPolicyArns"]; managed != nil {
			t.Errorf("%s: %v", role.id, managed)
		}
	}
}

func TestOnlySchedulesOfTheGroupInThisAccountMayUseTheSchedulerRole(t *testing.T) {
	t.Parallel()
	role := stock().only(t, "AWS::IAM::Role", "SchedulerRole")
	statement, ok := role.at(t, "AssumeRolePolicyDocument", "Statement", 0).(map[string]any)
	if !ok {
		t.Fatal("no statement")
	}
	if got := text(statement["Principal"].(map[string]any)["Service"]); got != "scheduler.amazonaws.com" {
		t.Errorf("principal: %s", got)
	}
	condition := statement["Condition"].(map[string]any)["StringEquals"].(map[string]any)
	if got := text(condition["aws:SourceAccount"]); got != "{AccountId}" {
		t.Errorf("aws:SourceAccount: %s", got)
	}
	want := "arn:{Partition}:scheduler:{Region}:{AccountId}:schedule-group/sluice"
	if got := text(condition["aws:SourceArn"]); got != want {
		t.Errorf("aws:SourceArn: %s, want %s", got, want)
	}
}

func TestFunctionsMayBeInvokedByTheBucketAndTheCronsOfThisAccountAlone(t *testing.T) {
	t.Parallel()
	var got []string
	for _, p := range stock().ofType("AWS::Lambda::Permission") {
		for name, want := range map[string]string{"Action": "lambda:InvokeFunction", "SourceAccount": "{AccountId}"} {
			if text := text(p.at(t, name)); text != want {
				t.Errorf("%s: %s is %s, want %s", p.id, name, text, want)
			}
		}
		got = append(got, fmt.Sprintf("%s by %s of %s", text(p.at(t, "FunctionName")), text(p.at(t, "Principal")), text(p.at(t, "SourceArn"))))
	}
	slices.Sort(got)
	want := []string{
		"{Claim} by s3.amazonaws.com of " + bucket,
		"{Reset} by events.amazonaws.com of {ResetCron}",
		"{Sweep} by events.amazonaws.com of {SweepCron}",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestEverySourceArnComesWithASourceAccount(t *testing.T) {
	t.Parallel()
	for _, r := range stock() {
		line := fmt.Sprint(r.Properties)
		if strings.Contains(line, "SourceArn") != strings.Contains(line, "SourceAccount") {
			t.Errorf("%s names a source ARN without a source account, or the reverse: %s", r.id, line)
		}
	}
}

// readable writes the rights of a role for people, one statement on a line of its own with each of its resources
// below it.
func readable(role string, statements []string) string {
	var b strings.Builder
	b.WriteString(role)
	for _, statement := range statements {
		actions, resources, _ := strings.Cut(statement, " on ")
		resources, condition, conditional := strings.Cut(resources, " if ")
		b.WriteString("\n  " + actions)
		for resource := range strings.FieldsSeq(resources) {
			b.WriteString("\n    on " + resource)
		}
		if conditional {
			b.WriteString("\n    if " + condition)
		}
	}

	return b.String()
}

// rolePolicies writes each role's statements as "actions on resources if conditions", sorted.
func rolePolicies(t *testing.T, rs resources) map[string][]string {
	t.Helper()
	lines := map[string][]string{}
	add := func(role string, document any) {
		statements, ok := document.(map[string]any)["Statement"].([]any)
		if !ok {
			t.Fatalf("%s: no statements in %v", role, document)
		}
		for _, s := range statements {
			lines[role] = append(lines[role], line(s.(map[string]any)))
		}
		slices.Sort(lines[role])
	}
	for _, role := range rs.ofType("AWS::IAM::Role") {
		lines[shortID(role.id)] = nil
		if policies, ok := role.Properties["Policies"].([]any); ok {
			for _, policy := range policies {
				add(shortID(role.id), policy.(map[string]any)["PolicyDocument"])
			}
		}
	}
	for _, policy := range rs.ofType("AWS::IAM::Policy") {
		role := shortID(strings.Trim(text(policy.at(t, "Roles", 0)), "{}"))
		add(role, policy.Properties["PolicyDocument"])
	}

	return lines
}

func line(statement map[string]any) string {
	s := fmt.Sprintf("%s on %s", text(statement["Action"]), text(statement["Resource"]))
	if statement["Effect"] != "Allow" {
		s = fmt.Sprintf("%v %s", statement["Effect"], s)
	}
	if statement["Condition"] != nil {
		s += " if " + text(statement["Condition"])
	}

	return s
}
