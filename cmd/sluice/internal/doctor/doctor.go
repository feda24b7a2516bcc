// Package doctor examines a deployed queue: whether each part that Sluice relies on is
// there and does what it must, and how to mend what does not.
//
// It changes nothing that it does not undo: a probe object under doctor/, which starts no
// function, and a schedule that is deleted at once.
package doctor

import (
	"context"
	"fmt"
	"iter"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/scheduler"

	"github.com/sluice-dev/sluice/shared/awserr"
	"github.com/sluice-dev/sluice/shared/s3store"
	"github.com/sluice-dev/sluice/shared/wakeup"
)

// Status is the outcome of a check.
type Status string

// The outcomes of a check.
const (
	OK     Status = "ok"
	Failed Status = "failed"
	// NotChecked says nothing about the part, the detail says why.
	NotChecked Status = "not_checked"
)

// Finding is what a check found.
type Finding struct {
	// Check names what was checked, such as "versioning".
	Check  string `json:"check"`
	Status Status `json:"status"`
	// Detail is what was found, or why nothing was.
	Detail string `json:"detail"`
	// Mend is what to do about a failed check, empty for others.
	Mend string `json:"mend,omitempty"`
}

// Deployment says where to look. Config and Bucket are required. The rest is known of a
// stack; what is empty is read from the claim function's environment.
type Deployment struct {
	Config aws.Config
	Bucket string

	ClaimFunction   string
	ScheduleGroup   string
	Table           string
	LimiterFunction string

	// Words words an error for the reader. Defaults to its Error method.
	Words func(error) string
}

// Patience is how long one check may take.
const Patience = 20 * time.Second

// check is one check: its name and what carries it out.
type check struct {
	name string
	run  func(*examination, context.Context) Finding
}

// checks are all of them, in an order in which a later one may build on what an earlier one
// has found.
func checks() []check {
	return []check{
		{"bucket", (*examination).checkBucket},
		{"clock", (*examination).checkClock},
		{"versioning", (*examination).checkVersioning},
		{"conditional writes", (*examination).checkConditions},
		{"event", (*examination).checkEvent},
		{"lifecycle", (*examination).checkLifecycle},
		{"claim function", (*examination).checkClaim},
		{"schedule group", (*examination).checkGroup},
		{"schedules", (*examination).checkSchedules},
		{"table", (*examination).checkTable},
		{"limiter", (*examination).checkLimiter},
	}
}

// Examine runs every check and yields what each has found. It ends early with the context.
func Examine(ctx context.Context, d Deployment) iter.Seq[Finding] {
	e := &examination{
		Deployment: d,
		objects:    s3store.NewClient(d.Config),
		schedules:  scheduler.NewFromConfig(d.Config),
		functions:  lambda.NewFromConfig(d.Config),
		tables:     dynamodb.NewFromConfig(d.Config),
	}
	return func(yield func(Finding) bool) {
		for _, c := range checks() {
			limited, cancel := context.WithTimeout(ctx, Patience)
			f := c.run(e, limited)
			cancel()
			if f.Check = c.name; ctx.Err() != nil || !yield(f) {
				return
			}
		}
	}
}

// Skip yields a finding for every check, none of which could be carried out.
func Skip(why string) iter.Seq[Finding] {
	return func(yield func(Finding) bool) {
		for _, c := range checks() {
			if !yield(Finding{Check: c.name, Status: NotChecked, Detail: why}) {
				return
			}
		}
	}
}

// examination is one run of the checks, and what they have found out so far.
type examination struct {
	Deployment

	objects   *s3.Client
	schedules *scheduler.Client
	functions *lambda.Client
	tables    *dynamodb.Client

	// reachable tells that the bucket is there.
	reachable bool
	// skew is how far this machine's clock is ahead of the service's, known if dated.
	skew  time.Duration
	dated bool
	// environment is that of the claim function, nil if it could not be read.
	environment map[string]string
	wakeups     wakeup.Config
}

func ok(format string, args ...any) Finding {
	return Finding{Status: OK, Detail: fmt.Sprintf(format, args...)}
}

func notChecked(format string, args ...any) Finding {
	return Finding{Status: NotChecked, Detail: fmt.Sprintf(format, args...)}
}

func failed(mend, format string, args ...any) Finding {
	return Finding{Status: Failed, Detail: fmt.Sprintf(format, args...), Mend: mend}
}

// unable is the finding of a check whose request failed. What the credentials may not do
// says nothing about the deployment.
func (e *examination) unable(err error, action, mend string) Finding {
	if awserr.IsAccessDenied(err) {
		return notChecked("the credentials may not do %s", action)
	}
	return failed(mend, "%s", e.words(err))
}

func (e *examination) words(err error) string {
	if e.Words != nil {
		return e.Words(err)
	}
	return err.Error()
}

const (
	redeploy = "deploy the stack again"
	noBucket = "the bucket cannot be reached"
	unknown  = "neither --stack nor the claim function's environment tells it"
)
