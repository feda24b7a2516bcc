package doctor_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	ddbtypes "github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/aws/aws-sdk-go-v2/service/scheduler"

	"github.com/sluice-dev/sluice/cmd/sluice/internal/doctor"
	"github.com/sluice-dev/sluice/localstack/cloud"
	"github.com/sluice-dev/sluice/localstack/cloud/lambdaemu"
	"github.com/sluice-dev/sluice/localstack/stack"
	"github.com/sluice-dev/sluice/shared/s3store"
)

// patient is a healthy deployment that tests make ill.
type patient struct {
	*stack.Stack

	objects    *s3.Client
	deployment doctor.Deployment
}

func deploy(t *testing.T) *patient {
	t.Helper()
	c := cloud.New(cloud.Options{})
	t.Cleanup(func() { _ = c.Close() })
	idle := func(map[string]string) lambdaemu.Runtime {
		return lambdaemu.Func(func(context.Context, []byte) ([]byte, error) { return nil, nil })
	}
	s, err := stack.Deploy(t.Context(), c, stack.Options{Claim: idle, Limiter: idle})
	if err != nil {
		t.Fatal(err)
	}
	config := s.Config("doctor")
	config.Retryer = func() aws.Retryer { return aws.NopRetryer{} }
	return &patient{Stack: s, objects: s3store.NewClient(s.Config("test")), deployment: doctor.Deployment{Config: config, Bucket: s.Bucket}}
}

// examine returns the findings by the names of the checks.
func (p *patient) examine(t *testing.T) map[string]doctor.Finding {
	t.Helper()
	findings := make(map[string]doctor.Finding)
	for f := range doctor.Examine(t.Context(), p.deployment) {
		findings[f.Check] = f
		if (f.Status == doctor.Failed) != (f.Mend != "") || f.Detail == "" {
			t.Errorf("the finding %+v: a failed check says how to mend it, and each what was found", f)
		}
	}
	if len(findings) != 11 {
		t.Errorf("%d checks, want 11", len(findings))
	}
	p.nothingIsLeft(t)
	return findings
}

func (p *patient) nothingIsLeft(t *testing.T) {
	t.Helper()
	p.Cloud.SetFault(nil)
	if out, err := p.objects.ListObjectVersions(t.Context(), &s3.ListObjectVersionsInput{Bucket: &p.Bucket}); err == nil && len(out.Versions)+len(out.DeleteMarkers) > 0 {
		t.Errorf("%d versions and %d delete markers are left", len(out.Versions), len(out.DeleteMarkers))
	}
	if out, err := scheduler.NewFromConfig(p.Config("test")).ListSchedules(t.Context(), &scheduler.ListSchedulesInput{}); err == nil && len(out.Schedules) > 0 {
		t.Errorf("%d schedules are left", len(out.Schedules))
	}
}

func check[T any](t *testing.T) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func TestAHealthyDeploymentPassesEveryCheck(t *testing.T) {
	t.Parallel()
	p := deploy(t)
	for name, f := range p.examine(t) {
		if f.Status != doctor.OK {
			t.Errorf("%s is %s: %s", name, f.Status, f.Detail)
		}
	}
	p.deployment.ClaimFunction, p.deployment.LimiterFunction = p.Function, p.Limiter
	p.deployment.Table, p.deployment.ScheduleGroup = p.Table, p.ScheduleGroup
	for name, f := range p.examine(t) {
		if f.Status != doctor.OK {
			t.Errorf("with what a stack tells, %s is %s: %s", name, f.Status, f.Detail)
		}
	}
}

// through changes the requests and answers of the doctor's clients.
type through struct {
	next http.RoundTripper
	do   func(next http.RoundTripper, r *http.Request) (*http.Response, error)
}

func (t through) RoundTrip(r *http.Request) (*http.Response, error) { return t.do(t.next, r) }

func (p *patient) through(do func(http.RoundTripper, *http.Request) (*http.Response, error)) {
	p.deployment.Config.HTTPClient = &http.Client{Transport: through{p.Cloud.Transport("doctor"), do}}
}

func without(header string) func(http.RoundTripper, *http.Request) (*http.Response, error) {
	return func(next http.RoundTripper, r *http.Request) (*http.Response, error) {
		r.Header.Del(header)
		return next.RoundTrip(r)
	}
}

func dated(by time.Duration) func(http.RoundTripper, *http.Request) (*http.Response, error) {
	return func(next http.RoundTripper, r *http.Request) (*http.Response, error) {
		response, err := next.RoundTrip(r)
		if err == nil {
			response.Header.Set("Date", time.Now().Add(by).UTC().Format(http.TimeFormat))
		}
		return response, err
	}
}

func (p *patient) refuse(operation string, status int, code string) {
	p.Cloud.SetFault(func(r *cloud.Request) cloud.Fault {
		if r.From("doctor") && r.Operation == operation {
			return cloud.Fault{Status: status, Code: code}
		}
		return cloud.Fault{}
	})
}

func (p *patient) notify(t *testing.T, configurations ...types.LambdaFunctionConfiguration) {
	t.Helper()
	check[*s3.PutBucketNotificationConfigurationOutput](t)(p.objects.PutBucketNotificationConfiguration(t.Context(), &s3.PutBucketNotificationConfigurationInput{
		Bucket: &p.Bucket, NotificationConfiguration: &types.NotificationConfiguration{LambdaFunctionConfigurations: configurations},
	}))
}

func (p *patient) on(prefix, suffix string, events ...types.Event) types.LambdaFunctionConfiguration {
	if len(events) == 0 {
		events = []types.Event{types.EventS3ObjectCreated}
	}
	return types.LambdaFunctionConfiguration{
		LambdaFunctionArn: aws.String(p.Cloud.Lambda().ARN(p.Function)), Events: events,
		Filter: &types.NotificationConfigurationFilter{Key: &types.S3KeyFilter{FilterRules: []types.FilterRule{
			{Name: types.FilterRuleNamePrefix, Value: &prefix}, {Name: types.FilterRuleNameSuffix, Value: &suffix},
		}}},
	}
}

func (p *patient) rules(t *testing.T, change func([]types.LifecycleRule) []types.LifecycleRule) {
	t.Helper()
	old := check[*s3.GetBucketLifecycleConfigurationOutput](t)(p.objects.GetBucketLifecycleConfiguration(t.Context(), &s3.GetBucketLifecycleConfigurationInput{Bucket: &p.Bucket}))
	check[*s3.PutBucketLifecycleConfigurationOutput](t)(p.objects.PutBucketLifecycleConfiguration(t.Context(), &s3.PutBucketLifecycleConfigurationInput{
		Bucket: &p.Bucket, LifecycleConfiguration: &types.BucketLifecycleConfiguration{Rules: change(old.Rules)},
	}))
}

// environment is that of a deployed function.
func (p *patient) environment(t *testing.T, function string) map[string]string {
	t.Helper()
	out := check[*lambda.GetFunctionConfigurationOutput](t)(lambda.NewFromConfig(p.Config("test")).GetFunctionConfiguration(t.Context(), &lambda.GetFunctionConfigurationInput{FunctionName: &function}))
	return out.Environment.Variables
}

func (p *patient) reconfigure(t *testing.T, name, variable, value string) {
	t.Helper()
	env := p.environment(t, name)
	env[variable] = value
	err := p.Cloud.Register(lambdaemu.Function{
		Name: name, Env: env, Runtime: lambdaemu.Func(func(context.Context, []byte) ([]byte, error) { return nil, nil }),
	})
	if err != nil {
		t.Fatal(err)
	}
}

// illnesses are what can be wrong, each with the check that must find it.
var illnesses = map[string]struct {
	cause  func(t *testing.T, p *patient)
	check  string
	status doctor.Status
	want   string // in detail and mend
}{
	"versioning suspended": {func(t *testing.T, p *patient) {
		t.Helper()
		check[*s3.PutBucketVersioningOutput](t)(p.objects.PutBucketVersioning(t.Context(), &s3.PutBucketVersioningInput{
			Bucket: &p.Bucket, VersioningConfiguration: &types.VersioningConfiguration{Status: types.BucketVersioningStatusSuspended},
		}))
	}, "versioning", doctor.Failed, "Status=Enabled"},
	"versioning never enabled": {func(t *testing.T, p *patient) {
		t.Helper()
		p.deployment.Bucket = "plain"
		check[*s3.CreateBucketOutput](t)(p.objects.CreateBucket(t.Context(), &s3.CreateBucketInput{Bucket: aws.String("plain")}))
	}, "versioning", doctor.Failed, "never enabled"},
	"bucket missing": {func(_ *testing.T, p *patient) { p.deployment.Bucket = "nowhere" }, "bucket", doctor.Failed, "nowhere does not exist here"},
	"bucket missing, so": {func(_ *testing.T, p *patient) { p.deployment.Bucket = "nowhere" },
		"conditional writes", doctor.NotChecked, "the bucket cannot be reached"},
	"bucket elsewhere": {func(_ *testing.T, p *patient) { p.deployment.Config.Region = "eu-west-3" }, "bucket", doctor.Failed, "--region us-east-1"},
	"bucket of others": {func(_ *testing.T, p *patient) { p.refuse("HeadBucket", 403, "AccessDenied") }, "bucket", doctor.Failed, "s3:ListBucket"},
	"service unreachable": {func(_ *testing.T, p *patient) {
		p.through(func(http.RoundTripper, *http.Request) (*http.Response, error) { return nil, errors.New("no route") })
	}, "bucket", doctor.Failed, "no route"},
	"clock behind": {func(_ *testing.T, p *patient) { p.through(dated(time.Minute)) }, "clock", doctor.Failed, "behind the service's"},
	"clock ahead":  {func(_ *testing.T, p *patient) { p.through(dated(-time.Minute)) }, "clock", doctor.Failed, "ahead of the service's"},

	"If-None-Match ignored": {func(_ *testing.T, p *patient) { p.through(without("If-None-Match")) },
		"conditional writes", doctor.Failed, "If-None-Match: * is ignored"},
	"If-Match ignored": {func(_ *testing.T, p *patient) { p.through(without("If-Match")) }, "conditional writes", doctor.Failed, "If-Match is ignored"},
	"conditions unknown": {func(_ *testing.T, p *patient) {
		p.Cloud.SetFault(func(r *cloud.Request) cloud.Fault {
			if r.From("doctor") && r.HTTP.Header.Get("If-Match") != "" {
				return cloud.Fault{Status: 501, Code: "NotImplemented"}
			}
			return cloud.Fault{}
		})
	}, "conditional writes", doctor.Failed, "NotImplemented"},
	"probe not allowed": {func(_ *testing.T, p *patient) { p.refuse("PutObject", 403, "AccessDenied") }, "conditional writes", doctor.NotChecked, "s3:PutObject"},

	"event gone":      {func(t *testing.T, p *patient) { t.Helper(); p.notify(t) }, "event", doctor.Failed, "no function is started"},
	"event elsewhere": {func(t *testing.T, p *patient) { t.Helper(); p.notify(t, p.on("in/", "")) }, "event", doctor.Failed, "no function is started"},
	"event of all":    {func(t *testing.T, p *patient) { t.Helper(); p.notify(t, p.on("", "")) }, "event", doctor.Failed, "it would trigger itself"},
	"event twice": {func(t *testing.T, p *patient) { t.Helper(); p.notify(t, p.on("inbox/", ""), p.on("inbox/", "")) },
		"event", doctor.Failed, "2 functions"},
	"event of some": {func(t *testing.T, p *patient) { t.Helper(); p.notify(t, p.on("inbox/", ".xml")) }, "event", doctor.Failed, "some objects"},
	"event of copies": {func(t *testing.T, p *patient) {
		t.Helper()
		p.notify(t, p.on("inbox/", "", types.EventS3ObjectCreatedCopy))
	},
		"event", doctor.Failed, "some objects"},
	"event not readable": {func(_ *testing.T, p *patient) { p.refuse("GetBucketNotificationConfiguration", 403, "AccessDenied") },
		"event", doctor.NotChecked, "s3:GetBucketNotification"},
	"event not readable, so": {func(_ *testing.T, p *patient) { p.refuse("GetBucketNotificationConfiguration", 403, "AccessDenied") },
		"schedules", doctor.NotChecked, "neither --stack nor"},

	"no lifecycle": {func(t *testing.T, p *patient) {
		t.Helper()
		check[*s3.DeleteBucketLifecycleOutput](t)(p.objects.DeleteBucketLifecycle(t.Context(), &s3.DeleteBucketLifecycleInput{Bucket: &p.Bucket}))
	}, "lifecycle", doctor.Failed, "for ever"},
	"lifecycle of all": {func(t *testing.T, p *patient) {
		t.Helper()
		p.rules(t, func(rules []types.LifecycleRule) []types.LifecycleRule {
			return append(rules, types.LifecycleRule{
				ID: aws.String("tidy"), Status: types.ExpirationStatusEnabled, Filter: &types.LifecycleRuleFilter{Prefix: aws.String("in")},
				Expiration: &types.LifecycleExpiration{Days: aws.Int32(7)},
			})
		})
	}, "lifecycle", doctor.Failed, `"tidy" removes live tasks`},
	"lifecycle disabled": {func(t *testing.T, p *patient) {
		t.Helper()
		p.rules(t, func(rules []types.LifecycleRule) []types.LifecycleRule {
			rules[0].Status = types.ExpirationStatusDisabled
			return rules
		})
	}, "lifecycle", doctor.Failed, "no rule expires objects under tasks/"},

	"claim function gone": {func(t *testing.T, p *patient) {
		t.Helper()
		gone := p.on("inbox/", "")
		gone.LambdaFunctionArn = aws.String(p.Cloud.Lambda().ARN("gone"))
		p.notify(t, gone)
	}, "claim function", doctor.Failed, "does not exist"},
	"claim function of another bucket": {func(t *testing.T, p *patient) { t.Helper(); p.reconfigure(t, p.Function, "SLUICE_BUCKET", "other") },
		"claim function", doctor.Failed, `works on the bucket "other"`},
	"wake-ups elsewhere": {func(t *testing.T, p *patient) {
		t.Helper()
		p.reconfigure(t, p.Function, "SLUICE_CLAIM_FUNCTION_ARN", "arn:x")
	},
		"claim function", doctor.Failed, `would start "arn:x"`},

	"schedule group gone": {func(t *testing.T, p *patient) {
		t.Helper()
		check[*scheduler.DeleteScheduleGroupOutput](t)(scheduler.NewFromConfig(p.Config("test")).DeleteScheduleGroup(t.Context(), &scheduler.DeleteScheduleGroupInput{Name: &p.ScheduleGroup}))
	}, "schedule group", doctor.Failed, "no task can sleep"},
	"schedule group gone, so": {func(t *testing.T, p *patient) {
		t.Helper()
		check[*scheduler.DeleteScheduleGroupOutput](t)(scheduler.NewFromConfig(p.Config("test")).DeleteScheduleGroup(t.Context(), &scheduler.DeleteScheduleGroupInput{Name: &p.ScheduleGroup}))
	}, "schedules", doctor.Failed, "does not exist"},
	"role refused": {func(_ *testing.T, p *patient) { p.refuse("CreateSchedule", 400, "ValidationException") },
		"schedules", doctor.Failed, "ValidationException"},
	"schedules not allowed": {func(_ *testing.T, p *patient) { p.refuse("CreateSchedule", 403, "AccessDeniedException") },
		"schedules", doctor.NotChecked, "iam:PassRole"},

	"table gone": {func(t *testing.T, p *patient) {
		t.Helper()
		check[*dynamodb.DeleteTableOutput](t)(dynamodb.NewFromConfig(p.Config("test")).DeleteTable(t.Context(), &dynamodb.DeleteTableInput{TableName: &p.Table}))
	}, "table", doctor.Failed, "does not exist here"},
	"table of something else": {func(t *testing.T, p *patient) {
		t.Helper()
		p.deployment.Table = "users"
		check[*dynamodb.CreateTableOutput](t)(dynamodb.NewFromConfig(p.Config("test")).CreateTable(t.Context(), &dynamodb.CreateTableInput{
			TableName: aws.String("users"), BillingMode: ddbtypes.BillingModePayPerRequest,
			KeySchema:            []ddbtypes.KeySchemaElement{{AttributeName: aws.String("pk"), KeyType: ddbtypes.KeyTypeHash}},
			AttributeDefinitions: []ddbtypes.AttributeDefinition{{AttributeName: aws.String("pk"), AttributeType: ddbtypes.ScalarAttributeTypeS}},
		}))
	}, "table", doctor.Failed, "no table of a limiter"},
	"items do not expire": {func(t *testing.T, p *patient) {
		t.Helper()
		check[*dynamodb.UpdateTimeToLiveOutput](t)(dynamodb.NewFromConfig(p.Config("test")).UpdateTimeToLive(t.Context(), &dynamodb.UpdateTimeToLiveInput{
			TableName: &p.Table, TimeToLiveSpecification: &ddbtypes.TimeToLiveSpecification{AttributeName: aws.String("ttl"), Enabled: aws.Bool(false)},
		}))
	}, "table", doctor.Failed, "AttributeName=ttl"},
	"no limiter": {func(t *testing.T, p *patient) { t.Helper(); p.reconfigure(t, p.Function, "SLUICE_TABLE", "") },
		"table", doctor.NotChecked, "no limiter is deployed"},
	"limiter unreachable": {func(_ *testing.T, p *patient) { p.refuse("Query", 500, "InternalServerError") }, "limiter", doctor.Failed, "InternalServerError"},
	"limiter function gone": {func(_ *testing.T, p *patient) { p.deployment.LimiterFunction = "gone" },
		"limiter", doctor.Failed, "the function gone does not exist"},
	"limiter function elsewhere": {func(t *testing.T, p *patient) {
		t.Helper()
		p.deployment.LimiterFunction = p.Limiter
		p.reconfigure(t, p.Limiter, "SLUICE_TABLE", "other")
	}, "limiter", doctor.Failed, "keeps its state elsewhere"},
}

func TestEveryIllnessIsFound(t *testing.T) {
	t.Parallel()
	for name, tt := range illnesses {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { // a limiter tries again for as long as it may
				p := deploy(t)
				tt.cause(t, p)
				f := p.examine(t)[tt.check]
				if text := f.Detail + " " + f.Mend; f.Status != tt.status || !strings.Contains(text, tt.want) {
					t.Errorf("%s is %s: %s; want %s with %q", tt.check, f.Status, text, tt.status, tt.want)
				}
			})
		})
	}
}

func TestWhatCouldNotBeRemovedIsNamed(t *testing.T) {
	t.Parallel()
	for operation, check := range map[string]string{"DeleteObject": "conditional writes", "DeleteSchedule": "schedules"} {
		t.Run(operation, func(t *testing.T) {
			t.Parallel()
			p := deploy(t)
			p.refuse(operation, 500, "InternalServerError")
			for f := range doctor.Examine(t.Context(), p.deployment) {
				if f.Check == check && (f.Status != doctor.Failed || !strings.Contains(f.Mend, "delete")) {
					t.Errorf("%s is %s: %s, to mend: %s", f.Check, f.Status, f.Detail, f.Mend)
				}
			}
		})
	}
}

func TestAnInterruptEndsTheExaminationAndRemovesTheProbe(t *testing.T) {
	t.Parallel()
	p := deploy(t)
	ctx, cancel := context.WithCancel(t.Context())
	p.Cloud.SetFault(func(r *cloud.Request) cloud.Fault {
		if r.From("doctor") && r.Operation == "PutObject" {
			return cloud.Fault{Then: cancel}
		}
		return cloud.Fault{}
	})
	n := 0
	for range doctor.Examine(ctx, p.deployment) {
		n++
	}
	if n != 3 {
		t.Errorf("%d findings after an interrupt in the fourth check", n)
	}
	p.nothingIsLeft(t)
}

func TestSkipNamesEveryCheck(t *testing.T) {
	t.Parallel()
	n := 0
	for f := range doctor.Skip("why") {
		if n++; f.Status != doctor.NotChecked || f.Detail != "why" || f.Check == "" {
			t.Errorf("%+v", f)
		}
	}
	if n != 11 {
		t.Errorf("%d checks, want 11", n)
	}
}
