package dynamolimit_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/sluice-dev/sluice/localstack/cloud"
	"github.com/sluice-dev/sluice/shared/dynamolimit"
	"github.com/sluice-dev/sluice/shared/limit"
	"github.com/sluice-dev/sluice/shared/limit/limittest"
)

const table = "limits"

var quiet = slog.New(slog.DiscardHandler)

// newCloud returns a cloud with the limiter's table, which is closed after the test.
func newCloud(t testing.TB, o cloud.Options) *cloud.Cloud {
	t.Helper()
	c := newTable(t, o)
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// newTable returns a cloud with the limiter's table.
func newTable(t testing.TB, o cloud.Options) *cloud.Cloud {
	t.Helper()
	c := cloud.New(o)
	client := dynamodb.NewFromConfig(c.Config(cloud.Label("setup")))
	if _, err := client.CreateTable(context.Background(), dynamolimit.Table(table)); err != nil {
		t.Fatal(err)
	}
	if _, err := client.UpdateTimeToLive(context.Background(), &dynamodb.UpdateTimeToLiveInput{
		TableName:               aws.String(table),
		TimeToLiveSpecification: &types.TimeToLiveSpecification{AttributeName: aws.String(dynamolimit.TTLAttribute), Enabled: aws.Bool(true)},
	}); err != nil {
		t.Fatal(err)
	}
	return c
}

// newLimiter returns a limiter of the cloud, with a client and a memory of its own.
func newLimiter(c *cloud.Cloud, label string, options ...dynamolimit.Option) *dynamolimit.Limiter {
	options = append([]dynamolimit.Option{dynamolimit.WithLog(quiet)}, options...)
	return dynamolimit.New(dynamodb.NewFromConfig(c.Config(cloud.Label(label))), table, options...)
}

// unhurried is for tests in real time: however busy the machine, no answer is late.
func unhurried(o ...dynamolimit.Option) []dynamolimit.Option {
	return append(o, dynamolimit.WithDeadline(5*time.Minute), dynamolimit.WithAttemptTimeout(time.Minute))
}

// subject is a limiter in the conformance suite.
func subject(l *dynamolimit.Limiter) limittest.Subject {
	return limittest.Subject{
		Limiter: l,
		Declare: l.Declare,
		ResetDue: func(ctx context.Context) error {
			_, err := l.ResetDue(ctx, "cron")
			return err
		},
	}
}

func at(clock func() time.Time) cloud.Options {
	var o cloud.Options
	o.DynamoDB.Clock = clock
	return o
}

func bucket(n int64, d time.Duration) limit.Policy {
	return limit.Policy{Name: "bucket", Rate: limit.Per(n, d)}
}
