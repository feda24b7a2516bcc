package doctor

import (
	"context"
	"log/slog"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/lambda"

	"github.com/sluice-dev/sluice/shared/awserr"
	"github.com/sluice-dev/sluice/shared/dynamolimit"
)

// checkTable asks for the limiter's table: its keys, and the expiry of items.
func (e *examination) checkTable(ctx context.Context) Finding {
	if e.Table == "" {
		e.Table = e.environment[dynamolimit.TableVariable]
	}
	if e.Table == "" {
		return notChecked("no limiter is deployed, or %s", unknown)
	}
	out, err := e.tables.DescribeTable(ctx, &dynamodb.DescribeTableInput{TableName: &e.Table})
	switch {
	case awserr.IsNotFound(err):
		return failed(redeploy, "%s does not exist here", e.Table)
	case err != nil:
		return e.unable(err, "dynamodb:DescribeTable", redeploy)
	}
	if status := out.Table.TableStatus; status != types.TableStatusActive && status != types.TableStatusUpdating {
		return failed("wait until it is ACTIVE", "%s is %s", e.Table, status)
	}
	if !keyedBy(out.Table, "pk", "sk") {
		return failed(redeploy, "%s is no table of a limiter: its keys are not the strings pk and sk", e.Table)
	}
	ttl, err := e.tables.DescribeTimeToLive(ctx, &dynamodb.DescribeTimeToLiveInput{TableName: &e.Table})
	if err != nil {
		return e.unable(err, "dynamodb:DescribeTimeToLive", redeploy)
	}
	d := ttl.TimeToLiveDescription
	expires := d != nil && (d.TimeToLiveStatus == types.TimeToLiveStatusEnabled || d.TimeToLiveStatus == types.TimeToLiveStatusEnabling)
	if !expires || aws.ToString(d.AttributeName) != dynamolimit.TTLAttribute {
		return failed("aws dynamodb update-time-to-live --table-name "+e.Table+" --time-to-live-specification Enabled=true,AttributeName="+dynamolimit.TTLAttribute,
			"items of %s do not expire by the attribute %s: it grows for ever", e.Table, dynamolimit.TTLAttribute)
	}
	return ok("%s", e.Table)
}

// keyedBy tells whether these strings are the table's keys.
func keyedBy(t *types.TableDescription, names ...string) bool {
	if len(t.KeySchema) != len(names) {
		return false
	}
	kinds := make(map[string]types.ScalarAttributeType)
	for _, a := range t.AttributeDefinitions {
		kinds[aws.ToString(a.AttributeName)] = a.AttributeType
	}
	for i, k := range t.KeySchema {
		if aws.ToString(k.AttributeName) != names[i] || kinds[names[i]] != types.ScalarAttributeTypeS {
			return false
		}
	}
	return true
}

// checkLimiter reads the policies as a limiter does, and asks for the limiter function.
func (e *examination) checkLimiter(ctx context.Context) Finding {
	if e.Table == "" {
		return notChecked("no limiter is deployed, or %s", unknown)
	}
	l := dynamolimit.New(e.tables, e.Table, dynamolimit.WithLog(slog.New(slog.DiscardHandler)))
	policies, err := l.Policies(ctx)
	if err != nil {
		return e.unable(err, "dynamodb:Query on "+e.Table, redeploy)
	}
	if e.LimiterFunction == "" {
		return ok("%d policies", len(policies))
	}
	out, err := e.functions.GetFunctionConfiguration(ctx, &lambda.GetFunctionConfigurationInput{FunctionName: &e.LimiterFunction})
	switch {
	case awserr.IsNotFound(err):
		return failed(redeploy, "the function %s does not exist: handlers in other languages have nothing to ask", e.LimiterFunction)
	case err != nil:
		return e.unable(err, "lambda:GetFunctionConfiguration", redeploy)
	case out.Environment == nil || out.Environment.Variables[dynamolimit.TableVariable] != e.Table:
		return failed(redeploy, "the function %s keeps its state elsewhere: its variable %s is not %s", e.LimiterFunction, dynamolimit.TableVariable, e.Table)
	}
	return ok("%d policies, function %s", len(policies), e.LimiterFunction)
}
