package sluice_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluice-dev/sluice/infra/sluice"
)

func TestThereIsNoCustomResource(t *testing.T) {
	t.Parallel()
	for name, rs := range map[string]resources{"stock": stock(), "custom": custom()} {
		for _, r := range rs {
			if strings.HasPrefix(r.Type, "Custom::") || r.Type == "AWS::CloudFormation::CustomResource" {
				t.Errorf("%s: %s is a %s", name, r.id, r.Type)
			}
		}
		if functions := rs.ofType("AWS::Lambda::Function"); len(functions) != 1 {
			t.Errorf("%s: want the claim function alone, got %d functions", name, len(functions))
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
	stateful := []string{"AWS::S3::Bucket", "AWS::SQS::Queue", "AWS::Logs::LogGroup"}
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
		"SLUICE_HTTP_HOSTS": "api.example.com",
	} {
		if got := text(claim.at(t, "Environment", "Variables", name)); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
	if got := custom().only(t, "AWS::S3::Bucket", "Bucket").at(t, "BucketName"); got != "orders-of-example-com" {
		t.Errorf("bucket: %v", got)
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
			"Claim.ReservedConcurrency", "SLUICE_BUCKET",
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
		Claim: sluice.ClaimProps{
			MemoryMiB: 64, Timeout: time.Hour, ReservedConcurrency: -1,
			Environment: map[string]string{"SLUICE_BUCKET": "another"},
		},
	})
	t.Error("accepted")
}

func TestUnusableContextIsRefusedByName(t *testing.T) {
	t.Parallel()
	for key, value := range map[string]string{
		"retentionDays": "soon", "concurrency": "-1", "ephemeral": "maybe", "architecture": "mips",
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
