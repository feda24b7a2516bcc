package sluice

import (
	"maps"
	"slices"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"
)

// names holds the physical names and the ARNs made from them. They are plain strings rather than
// references between resources: the bucket needs the permission, the permission the function, the
// function its own ARN and the bucket's name. References would close that circle, names do not.
type names struct {
	bucket        string
	table         string
	claim         string
	limiter       string
	reset         string
	sweep         string
	scheduleGroup string

	bucketArn        string
	tableArn         string
	claimArn         string
	claimArns        map[string]string // of the further claim functions, by their short names
	scheduleGroupArn string
	schedulesArn     string // every schedule of the group
}

func newNames(scope constructs.Construct, props Props) names {
	stack := awscdk.Stack_Of(scope)
	n := names{
		bucket:        props.BucketName,
		table:         props.Name + "-limits",
		claim:         props.Name + "-claim",
		limiter:       props.Name + "-limiter",
		reset:         props.Name + "-reset",
		sweep:         props.Name + "-sweep",
		scheduleGroup: props.Name,
	}
	if n.bucket == "" {
		n.bucket = props.Name + "-" + *stack.Account() + "-" + *stack.Region()
	}
	arn := func(service, resource, name string) string {
		return *stack.FormatArn(&awscdk.ArnComponents{
			Service: &service, Resource: &resource, ResourceName: &name,
		})
	}
	n.bucketArn = *stack.FormatArn(&awscdk.ArnComponents{
		Service: jsii.String("s3"), Region: jsii.String(""), Account: jsii.String(""),
		Resource: &n.bucket, ArnFormat: awscdk.ArnFormat_NO_RESOURCE_NAME,
	})
	n.tableArn = arn("dynamodb", "table", n.table)
	n.claimArn = functionArn(stack, n.claim)
	n.claimArns = map[string]string{}
	for _, c := range props.Claims {
		n.claimArns[c.Name] = functionArn(stack, n.claimOf(c.Name))
	}
	n.scheduleGroupArn = arn("scheduler", "schedule-group", n.scheduleGroup)
	n.schedulesArn = arn("scheduler", "schedule", n.scheduleGroup+"/*")

	return n
}

func functionArn(stack awscdk.Stack, name string) string {
	return *stack.FormatArn(&awscdk.ArnComponents{
		Service: jsii.String("lambda"), Resource: jsii.String("function"),
		ResourceName: &name, ArnFormat: awscdk.ArnFormat_COLON_RESOURCE_NAME,
	})
}

// claimOf is the physical name of a further claim function.
func (n names) claimOf(name string) string { return n.claim + "-" + name }

// everyClaimArn are the ARNs of all claim functions, the first one first.
func (n names) everyClaimArn() []string {
	all := []string{n.claimArn}
	for _, name := range slices.Sorted(maps.Keys(n.claimArns)) {
		all = append(all, n.claimArns[name])
	}

	return all
}

// objects is the ARN pattern of everything below a prefix of the bucket.
func (n names) objects(prefix string) string {
	return n.bucketArn + "/" + prefix + "*"
}

// The prefixes of the bucket. Each object below inbox/ is a submission whose creation starts the claim
// function; no event is attached to the others.
const (
	inboxPrefix      = "inbox/"
	tasksPrefix      = "tasks/"
	payloadsPrefix   = "payloads/"
	quarantinePrefix = "quarantine/"
	sweepPrefix      = "sweep/"
)
