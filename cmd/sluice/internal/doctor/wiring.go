package doctor

import (
	"context"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	lambdatypes "github.com/aws/aws-sdk-go-v2/service/lambda/types"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/sluice-dev/sluice/shared/awserr"
	"github.com/sluice-dev/sluice/shared/s3store"
	"github.com/sluice-dev/sluice/shared/wakeup"
	"github.com/sluice-dev/sluice/shared/worker"
)

// checkEvent asks whether a submit starts the claim function, once, and nothing else does.
func (e *examination) checkEvent(ctx context.Context) Finding {
	if !e.reachable {
		return notChecked(noBucket)
	}
	out, err := e.objects.GetBucketNotificationConfiguration(ctx, &s3.GetBucketNotificationConfigurationInput{Bucket: &e.Bucket})
	if err != nil {
		return e.unable(err, "s3:GetBucketNotification", redeploy)
	}
	var starts []string
	for _, n := range out.LambdaFunctionConfigurations {
		prefix, suffix := s3store.KeyFilter(n.Filter)
		arn := aws.ToString(n.LambdaFunctionArn)
		switch {
		case !createsAll(n.Events) && !slices.ContainsFunc(n.Events, isCreation):
		case prefix != s3store.InboxPrefix && isWithin(s3store.InboxPrefix, prefix):
			return failed(redeploy, "%s is started by objects under %q, which is more than %s: it would trigger itself", arn, prefix, s3store.InboxPrefix)
		case prefix == s3store.InboxPrefix && suffix == "" && createsAll(n.Events):
			starts = append(starts, arn)
		case strings.HasPrefix(prefix, s3store.InboxPrefix):
			return failed(redeploy, "%s is started by some objects under %s only (%s, prefix %q, suffix %q)", arn, s3store.InboxPrefix, joined(n.Events), prefix, suffix)
		}
	}
	switch len(starts) {
	case 0:
		return failed(redeploy, "no function is started by objects that are created under %s: tasks wait until the sweep finds them", s3store.InboxPrefix)
	case 1:
		if e.ClaimFunction == "" {
			e.ClaimFunction = starts[0]
		}
		return ok("%s starts %s", s3store.InboxPrefix, starts[0])
	}
	return failed(redeploy, "%d functions are started by each submit: %s", len(starts), strings.Join(starts, ", "))
}

// isWithin tells whether all keys under the area have the prefix.
func isWithin(area, prefix string) bool { return strings.HasPrefix(area, prefix) }

func createsAll(events []types.Event) bool {
	return slices.Contains(events, types.EventS3ObjectCreated)
}

func isCreation(event types.Event) bool { return strings.HasPrefix(string(event), "s3:ObjectCreated:") }

func joined(events []types.Event) string {
	names := make([]string, 0, len(events))
	for _, event := range events {
		names = append(names, string(event))
	}
	return strings.Join(names, ", ")
}

// checkClaim asks for the claim function, and reads from it what it works on.
func (e *examination) checkClaim(ctx context.Context) Finding {
	if e.ClaimFunction == "" {
		return notChecked("no event and no stack names it")
	}
	out, err := e.functions.GetFunctionConfiguration(ctx, &lambda.GetFunctionConfigurationInput{FunctionName: &e.ClaimFunction})
	switch {
	case awserr.IsNotFound(err):
		return failed(redeploy, "%s does not exist", e.ClaimFunction)
	case err != nil:
		return e.unable(err, "lambda:GetFunctionConfiguration", redeploy)
	}
	e.environment = map[string]string{}
	if out.Environment != nil {
		e.environment = out.Environment.Variables
	}
	e.wakeups = wakeup.Config{
		Group: e.environment[worker.EnvScheduleGroup], RoleARN: e.environment[worker.EnvScheduleRoleARN],
		TargetARN: e.environment[worker.EnvClaimARN], DeadLetterARN: e.environment[worker.EnvDeadLetterARN],
	}
	name := aws.ToString(out.FunctionName)
	switch bucket := e.environment[worker.EnvBucket]; {
	case bucket != e.Bucket:
		return failed(redeploy, "%s works on the bucket %q (its variable %s), not on %s", name, bucket, worker.EnvBucket, e.Bucket)
	case out.State != "" && out.State != lambdatypes.StateActive && out.State != lambdatypes.StateInactive:
		return failed(redeploy, "%s is %s: %s", name, out.State, aws.ToString(out.StateReason))
	case out.LastUpdateStatus == lambdatypes.LastUpdateStatusFailed:
		return failed(redeploy, "the last update of %s failed: %s", name, aws.ToString(out.LastUpdateStatusReason))
	case e.wakeups.TargetARN != aws.ToString(out.FunctionArn):
		return failed(redeploy, "wake-ups of %s would start %q (its variable %s)", name, e.wakeups.TargetARN, worker.EnvClaimARN)
	}
	return ok("%s", name)
}
