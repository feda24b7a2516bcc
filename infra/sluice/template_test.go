package sluice_test

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-cdk-go/awscdk/v2/awssqs"

	"github.com/sluice-dev/sluice/infra/sluice"
	"github.com/sluice-dev/sluice/shared/worker"
)

func TestThereIsNoCustomResource(t *testing.T) {
	t.Parallel()
	for name, rs := range map[string]resources{"stock": stock(), "custom": custom()} {
		for _, r := range rs {
			if strings.HasPrefix(r.Type, "Custom::") || r.Type == "AWS::CloudFormation::CustomResource" {
				t.Errorf("%s: %s is a %s", name, r.id, r.Type)
			}
		}
		if functions := rs.ofType("AWS::Lambda::Function"); len(functions) != 4 {
			t.Errorf("%s: want claim, limiter, reset and sweep, got %d functions", name, len(functions))
		}
	}
}

func TestOnlyObjectsCreatedInTheInboxRaiseEvents(t *testing.T) {
	t.Parallel()
	b := stock().only(t, "AWS::S3::Bucket", "Bucket")
	notification, ok := b.at(t, "NotificationConfiguration").(map[string]any)
	if !ok || len(notification) != 1 {
		t.Fatalf("want Lambda configurations only: %v", notification)
	}
	if targets, ok := notification["LambdaConfigurations"].([]any); !ok || len(targets) != 1 {
		t.Fatalf("want one: %v", notification)
	}
	target := []any{"NotificationConfiguration", "LambdaConfigurations", 0}
	if got := b.at(t, append(target, "Event")...); got != "s3:ObjectCreated:*" {
		t.Errorf("event: %v", got)
	}
	if got := text(b.at(t, append(target, "Function")...)); got != "{Claim}" {
		t.Errorf("function: %v", got)
	}
	rules := b.at(t, append(target, "Filter", "S3Key", "Rules")...)
	if got := fmt.Sprint(rules); got != "[map[Name:prefix Value:inbox/]]" {
		t.Errorf("filter: %v", got)
	}
}

// S3 refuses a notification to a function that it may not invoke yet.
func TestThePermissionIsThereBeforeTheBucket(t *testing.T) {
	t.Parallel()
	permission := stock().only(t, "AWS::Lambda::Permission", "BucketMayInvokeClaim")
	b := stock().only(t, "AWS::S3::Bucket", "Bucket")
	if !slices.Contains(b.DependsOn, permission.id) {
		t.Errorf("the bucket depends on %v", b.DependsOn)
	}
}

func TestTheBucketIsVersionedEncryptedPrivateAndTLSOnly(t *testing.T) {
	t.Parallel()
	b := stock().only(t, "AWS::S3::Bucket", "Bucket")
	if got := b.at(t, "VersioningConfiguration", "Status"); got != "Enabled" {
		t.Errorf("versioning: %v", got)
	}
	encryption := b.at(t, "BucketEncryption", "ServerSideEncryptionConfiguration", 0, "ServerSideEncryptionByDefault", "SSEAlgorithm")
	if encryption != "AES256" {
		t.Errorf("encryption: %v", encryption)
	}
	for _, block := range []string{"BlockPublicAcls", "BlockPublicPolicy", "IgnorePublicAcls", "RestrictPublicBuckets"} {
		if got := b.at(t, "PublicAccessBlockConfiguration", block); got != true {
			t.Errorf("%s: %v", block, got)
		}
	}
	if got := b.at(t, "OwnershipControls", "Rules", 0, "ObjectOwnership"); got != "BucketOwnerEnforced" {
		t.Errorf("ownership: %v", got)
	}
	policy := fmt.Sprint(stock().only(t, "AWS::S3::BucketPolicy", "BucketPolicy").Properties)
	for _, want := range []string{"Effect:Deny", "aws:SecureTransport:false", "s3:TlsVersion:1.2"} {
		if !strings.Contains(policy, want) {
			t.Errorf("the bucket's policy says nothing of %s: %s", want, policy)
		}
	}
}

func TestLifecycleRulesRemoveFinishedTasksAndNothingThatIsAlive(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name                  string
		rs                    resources
		retention, quarantine int
	}{
		{"stock", stock(), 30, 30},
		{"custom", custom(), 7, 3},
	} {
		rules, ok := c.rs.only(t, "AWS::S3::Bucket", "Bucket").at(t, "LifecycleConfiguration", "Rules").([]any)
		if !ok {
			t.Fatalf("%s: no rules", c.name)
		}
		var got []string
		for _, rule := range rules {
			rule, _ := rule.(map[string]any)
			rule = maps.Clone(rule)
			if rule["Status"] != "Enabled" {
				t.Errorf("%s: %v is off", c.name, rule["Id"])
			}
			delete(rule, "Status")
			got = append(got, fmt.Sprint(rule))
		}
		finished := "TagFilters:[map[Key:sluice-state Value:finished]]"
		want := []string{
			fmt.Sprintf("map[ExpirationInDays:%d Id:finished-tasks Prefix:tasks/ %s]", c.retention, finished),
			fmt.Sprintf("map[Id:old-versions-of-records NoncurrentVersionExpiration:map[NewerNoncurrentVersions:100 NoncurrentDays:%d] Prefix:tasks/]", c.retention),
			fmt.Sprintf("map[ExpirationInDays:%d Id:payloads-of-finished-tasks Prefix:payloads/ %s]", c.retention, finished),
			"map[Id:old-versions-of-payloads NoncurrentVersionExpiration:map[NoncurrentDays:1] Prefix:payloads/]",
			fmt.Sprintf("map[Id:old-versions-of-submissions NoncurrentVersionExpiration:map[NoncurrentDays:%d] Prefix:inbox/]", c.retention),
			fmt.Sprintf("map[ExpirationInDays:%d Id:quarantine NoncurrentVersionExpiration:map[NoncurrentDays:1] Prefix:quarantine/]", c.quarantine),
			"map[Id:old-versions-of-the-sweep NoncurrentVersionExpiration:map[NoncurrentDays:1] Prefix:sweep/]",
			"map[AbortIncompleteMultipartUpload:map[DaysAfterInitiation:1] Id:unfinished-uploads]",
			"map[ExpiredObjectDeleteMarker:true Id:bare-delete-markers]",
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: got\n%s\nwant\n%s", c.name, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
}

func TestStatefulResourcesOutliveTheStackUnlessItIsEphemeral(t *testing.T) {
	t.Parallel()
	stateful := []string{"AWS::S3::Bucket", "AWS::DynamoDB::Table", "AWS::SQS::Queue", "AWS::Logs::LogGroup"}
	for _, c := range []struct {
		name, want string
		rs         resources
	}{{"stock", "Retain", stock()}, {"ephemeral", "Delete", custom()}} {
		for _, kind := range stateful {
			for _, r := range c.rs.ofType(kind) {
				if r.DeletionPolicy != c.want {
					t.Errorf("%s: %s has the deletion policy %q, want %s", c.name, r.id, r.DeletionPolicy, c.want)
				}
			}
		}
	}
}

func TestTheClaimFunctionByDefault(t *testing.T) {
	t.Parallel()
	claim := stock().only(t, "AWS::Lambda::Function", "Claim")
	for name, want := range map[string]string{
		"FunctionName":  "sluice-claim",
		"Runtime":       "provided.al2023",
		"Architectures": "arm64",
		"Handler":       "bootstrap",
		"MemorySize":    "256",
		"Timeout":       "900",
		"RecursiveLoop": "Allow",
	} {
		if got := text(claim.at(t, name)); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
	if got := claim.at(t, "ReservedConcurrentExecutions"); got != nil {
		t.Errorf("reserved concurrency: %v", got)
	}
	if got := text(stock().only(t, "AWS::Logs::LogGroup", "ClaimLogs").at(t, "RetentionInDays")); got != "30" {
		t.Errorf("log retention: %s days", got)
	}
}

func TestTheClaimFunctionFindsItsQueueByItsEnvironment(t *testing.T) {
	t.Parallel()
	claim := stock().only(t, "AWS::Lambda::Function", "Claim")
	variables, _ := claim.at(t, "Environment", "Variables").(map[string]any)
	want := map[string]string{
		"SLUICE_BUCKET":             "sluice-{AccountId}-{Region}",
		"SLUICE_TABLE":              "sluice-limits",
		"SLUICE_RELEASE":            text(variables["SLUICE_RELEASE"]), // see the test of releases
		"SLUICE_SCHEDULE_GROUP":     "sluice",
		"SLUICE_SCHEDULE_ROLE_ARN":  "{SchedulerRole}",
		"SLUICE_CLAIM_FUNCTION_ARN": "arn:{Partition}:lambda:{Region}:{AccountId}:function:sluice-claim",
		"SLUICE_DEAD_LETTER_ARN":    "{DeadLetters}",
	}
	for name, value := range want {
		if got := text(variables[name]); got != value {
			t.Errorf("%s: %s, want %s", name, got, value)
		}
	}
	if len(variables) != len(want) {
		t.Errorf("got %d variables, want %d: %v", len(variables), len(want), variables)
	}
}

func TestPropsConfigureTheClaimFunction(t *testing.T) {
	t.Parallel()
	claim := custom().only(t, "AWS::Lambda::Function", "Claim")
	for name, want := range map[string]string{
		"FunctionName":                 "orders-claim",
		"MemorySize":                   "512",
		"Timeout":                      "60",
		"ReservedConcurrentExecutions": "20",
	} {
		if got := text(claim.at(t, name)); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
	for name, want := range map[string]string{
		"SLUICE_BUCKET": "orders-of-example-com", "SLUICE_SCHEDULE_GROUP": "orders", "SLUICE_REST": "0", "VENDOR": "example.com",
		"SLUICE_HTTP_HOSTS": "api.example.com", "SLUICE_TABLE": "orders-limits", "SLUICE_RELEASE": "1800000000",
		worker.EnvConcurrency: "20", // what it reserves
	} {
		if got := text(claim.at(t, "Environment", "Variables", name)); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
	if got := custom().only(t, "AWS::S3::Bucket", "Bucket").at(t, "BucketName"); got != "orders-of-example-com" {
		t.Errorf("bucket: %v", got)
	}
}

func TestTheOtherFunctionsByDefaultAndAsConfigured(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		rs        resources
		id        string
		settings  map[string]string
		variables map[string]string
	}{
		{
			stock(), "Limiter", map[string]string{"FunctionName": "sluice-limiter", "MemorySize": "256", "Timeout": "10"},
			map[string]string{"SLUICE_TABLE": "sluice-limits"},
		},
		{
			stock(), "Reset", map[string]string{"FunctionName": "sluice-reset", "MemorySize": "256", "Timeout": "50"},
			map[string]string{
				"SLUICE_TABLE":              "sluice-limits",
				"SLUICE_SCHEDULE_GROUP":     "sluice",
				"SLUICE_SCHEDULE_ROLE_ARN":  "{SchedulerRole}",
				"SLUICE_CLAIM_FUNCTION_ARN": claim,
				"SLUICE_DEAD_LETTER_ARN":    "{DeadLetters}",
			},
		},
		{
			stock(), "Sweep", map[string]string{"FunctionName": "sluice-sweep", "MemorySize": "256", "Timeout": "240"},
			map[string]string{
				"SLUICE_BUCKET":             "sluice-{AccountId}-{Region}",
				"SLUICE_CLAIM_FUNCTION_ARN": claim,
			},
		},
		{
			custom(), "Limiter",
			map[string]string{"FunctionName": "orders-limiter", "MemorySize": "1024", "Timeout": "5", "ReservedConcurrentExecutions": "30", "TracingConfig": `{"Mode":"Active"}`},
			map[string]string{"SLUICE_TABLE": "orders-limits"},
		},
		{
			custom(), "Reset", map[string]string{"FunctionName": "orders-reset", "MemorySize": "128", "Timeout": "50"},
			map[string]string{
				"SLUICE_TABLE":              "orders-limits",
				"SLUICE_SCHEDULE_GROUP":     "orders",
				"SLUICE_SCHEDULE_ROLE_ARN":  "{SchedulerRole}",
				"SLUICE_CLAIM_FUNCTION_ARN": strings.Replace(claim, "sluice", "orders", 1),
				"SLUICE_DEAD_LETTER_ARN":    "{DeadLetters}",
			},
		},
		{
			custom(), "Sweep", map[string]string{"FunctionName": "orders-sweep", "MemorySize": "256", "Timeout": "120"},
			map[string]string{
				"SLUICE_BUCKET":             "orders-of-example-com",
				"SLUICE_CLAIM_FUNCTION_ARN": strings.Replace(claim, "sluice", "orders", 1),
				"SLUICE_SWEEP_MAX_TASKS":    "500",
			},
		},
	} {
		f := c.rs.only(t, "AWS::Lambda::Function", c.id)
		maps.Copy(c.settings, map[string]string{"Runtime": "provided.al2023", "Architectures": "arm64", "Handler": "bootstrap"})
		for name, want := range c.settings {
			if got := text(f.at(t, name)); got != want {
				t.Errorf("%s: %s is %s, want %s", f.id, name, got, want)
			}
		}
		variables, _ := f.at(t, "Environment", "Variables").(map[string]any)
		got := make(map[string]string)
		for name, value := range variables {
			got[name] = text(value)
		}
		if !maps.Equal(got, c.variables) {
			t.Errorf("%s: got the variables %v, want %v", f.id, got, c.variables)
		}
	}
}

func TestTheTableIsOnDemandExpiresItemsAndCanBeRecovered(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name      string
		rs        resources
		protected string
	}{{"sluice-limits", stock(), "true"}, {"orders-limits", custom(), "false"}} {
		table := c.rs.only(t, "AWS::DynamoDB::Table", "Table")
		for name, want := range map[string]string{
			"TableName":   c.name,
			"BillingMode": "PAY_PER_REQUEST",
			"KeySchema":   `{"AttributeName":"pk","KeyType":"HASH"} {"AttributeName":"sk","KeyType":"RANGE"}`,
			"AttributeDefinitions": `{"AttributeName":"pk","AttributeType":"S"} ` +
				`{"AttributeName":"sk","AttributeType":"S"}`,
			"TimeToLiveSpecification":          `{"AttributeName":"ttl","Enabled":true}`,
			"PointInTimeRecoverySpecification": `{"PointInTimeRecoveryEnabled":true}`,
			"SSESpecification":                 `{"SSEEnabled":false}`, // which means a key of DynamoDB's own
			"DeletionProtectionEnabled":        c.protected,
		} {
			if got := text(table.at(t, name)); got != want {
				t.Errorf("%s: %s is %s, want %s", c.name, name, got, want)
			}
		}
	}
}

func TestResetAndSweepRunByTheClock(t *testing.T) {
	t.Parallel()
	for id, want := range map[string]string{"Reset": "rate(1 minute)", "Sweep": "rate(5 minutes)"} {
		rule := stock().only(t, "AWS::Events::Rule", id+"Cron")
		if got := text(rule.at(t, "ScheduleExpression")); got != want {
			t.Errorf("%s: %s, want %s", id, got, want)
		}
		if targets, _ := rule.at(t, "Targets").([]any); len(targets) != 1 {
			t.Errorf("%s: %d targets", id, len(targets))
		}
		if got := text(rule.at(t, "Targets", 0, "Arn")); got != "{"+id+"}" {
			t.Errorf("%s starts %s", id, got)
		}
		event, err := os.ReadFile("../../events/cron.json")
		if err != nil {
			t.Fatal(err)
		}
		if got := text(rule.at(t, "Targets", 0, "Input")); got != strings.TrimSpace(string(event)) {
			t.Errorf("%s is told %s, and events/cron.json says %s", id, got, event)
		}
		// The next run does what a failed one left.
		async := stock().only(t, "AWS::Lambda::EventInvokeConfig", id+"Async")
		if got := text(async.at(t, "MaximumRetryAttempts")); got != "0" {
			t.Errorf("%s is tried again %s times", id, got)
		}
	}
}

func TestWhatLambdaCannotDeliverGoesToTheDeadLetters(t *testing.T) {
	t.Parallel()
	async := stock().only(t, "AWS::Lambda::EventInvokeConfig", "ClaimAsync")
	for name, want := range map[string]string{"MaximumEventAgeInSeconds": "900", "MaximumRetryAttempts": "2", "Qualifier": "$LATEST"} {
		if got := text(async.at(t, name)); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
	if got := text(async.at(t, "DestinationConfig", "OnFailure", "Destination")); got != "{DeadLetters}" {
		t.Errorf("on failure: %s", got)
	}
	letters := stock().only(t, "AWS::SQS::Queue", "DeadLetters")
	if got := text(letters.at(t, "SqsManagedSseEnabled")); got != "true" {
		t.Errorf("encryption: %s", got)
	}
	if got := text(letters.at(t, "MessageRetentionPeriod")); got != "1209600" {
		t.Errorf("retention: %s s, want 14 days", got)
	}
}

func TestUnusablePropsAreRefusedAllAtOnceByName(t *testing.T) {
	t.Parallel()
	defer func() {
		message := fmt.Sprint(recover())
		for _, want := range []string{
			"Name", "BucketName", "Retention", "QuarantineRetention", "Claim.MemoryMiB", "Claim.Timeout",
			"Claim.ReservedConcurrency", "SLUICE_BUCKET", "SLUICE_NOTICES", "SLUICE_CONCURRENCY", `Notices["job"]`,
			"Alarms.StuckAfter", "Alarms.HourlyCost",
			"Release", "Limiter.MemoryMiB", "Reset.Timeout", "Sweep.ReservedConcurrency", "SLUICE_TABLE",
		} {
			if !strings.Contains(message, want) {
				t.Errorf("the message does not name %s: %s", want, message)
			}
		}
	}()
	synth(nil, sluice.Props{
		Name:                "Not A Name",
		BucketName:          "dots.break.tls",
		Retention:           time.Hour,
		QuarantineRetention: -24 * time.Hour,
		Claim: sluice.FunctionProps{
			MemoryMiB: 64, Timeout: time.Hour, ReservedConcurrency: -1,
			Environment: map[string]string{"SLUICE_BUCKET": "another"},
		},
		Release: -1,
		Alarms:  sluice.AlarmProps{StuckAfter: time.Millisecond, HourlyCost: -1},
		Limiter: sluice.FunctionProps{MemoryMiB: 20_000, Environment: map[string]string{"SLUICE_TABLE": "another", "SLUICE_NOTICES": "{}"}},
		Reset:   sluice.FunctionProps{Timeout: 1500 * time.Millisecond},
		Sweep:   sluice.FunctionProps{ReservedConcurrency: -1},
		Claims: []sluice.ClaimProps{{Name: "mail", Types: []string{"send_mail"}, FunctionProps: sluice.FunctionProps{
			ReservedConcurrency: 5, Environment: map[string]string{"SLUICE_CONCURRENCY": "6"},
		}}},
		Notices: map[string]awssqs.IQueue{"job": nil},
	})
	t.Error("accepted")
}

func TestUnusableContextIsRefusedByName(t *testing.T) {
	t.Parallel()
	for key, value := range map[string]string{
		"retentionDays": "soon", "concurrency": "-1", "ephemeral": "maybe", "architecture": "mips", "release": "v2",
		"alarms": "few", "hourlyCost": "free", "dashboard": "big", "notices": "send_mail=ends",
	} {
		func() {
			defer func() {
				if message := fmt.Sprint(recover()); !strings.Contains(message, "context "+key+"="+value) {
					t.Errorf("%s=%s: %s", key, value, message)
				}
			}()
			synth(map[string]any{key: value}, sluice.Props{})
			t.Errorf("%s=%s: accepted", key, value)
		}()
	}
}

func TestAFunctionThatIsNotBuiltIsReportedWithTheCommandThatBuildsIt(t *testing.T) {
	t.Parallel()
	defer func() {
		if message := fmt.Sprint(recover()); !strings.Contains(message, "make build") {
			t.Errorf("got %s", message)
		}
	}()
	synth(map[string]any{"assets": t.TempDir()}, sluice.Props{})
	t.Error("accepted")
}
