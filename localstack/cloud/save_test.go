package cloud_test

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/scheduler"
	"github.com/aws/aws-sdk-go-v2/service/scheduler/types"

	"github.com/sluice-dev/sluice/localstack/cloud"
	"github.com/sluice-dev/sluice/localstack/cloud/lambdaemu"
)

func saved(t *testing.T, c *cloud.Cloud) *bytes.Reader {
	t.Helper()
	var file bytes.Buffer
	if err := c.Save(&file); err != nil {
		t.Fatal(err)
	}
	return bytes.NewReader(file.Bytes())
}

func TestASavedCloudGoesOnAndFiresWhatBecameDue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		before := cloud.New(cloud.Options{})
		register := func(c *cloud.Cloud, fired *int) {
			fn := lambdaemu.Func(func(context.Context, []byte) ([]byte, error) { *fired++; return nil, nil })
			if err := c.Register(lambdaemu.Function{Name: "claim", Runtime: fn}); err != nil {
				t.Fatal(err)
			}
		}
		none, fired := 0, 0
		register(before, &none)
		client := s3.NewFromConfig(before.Config(), func(o *s3.Options) { o.UsePathStyle = true })
		if _, err := client.CreateBucket(t.Context(), &s3.CreateBucketInput{Bucket: aws.String("tasks")}); err != nil {
			t.Fatal(err)
		}
		if err := before.NotifyOnCreate("tasks", "inbox/", "claim"); err != nil {
			t.Fatal(err)
		}
		if _, err := before.DeadLetterQueue("dead"); err != nil {
			t.Fatal(err)
		}
		at := time.Now().Add(time.Minute).UTC().Format("at(2006-01-02T15:04:05)")
		if _, err := scheduler.NewFromConfig(before.Config()).CreateSchedule(t.Context(), &scheduler.CreateScheduleInput{
			Name: aws.String("nap"), ScheduleExpression: &at, FlexibleTimeWindow: &types.FlexibleTimeWindow{Mode: types.FlexibleTimeWindowModeOff},
			Target: &types.Target{Arn: aws.String(before.Lambda().ARN("claim")), RoleArn: aws.String("arn:aws:iam::000000000000:role/r")},
		}); err != nil {
			t.Fatal(err)
		}
		file := saved(t, before)
		if err := before.Close(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)

		after := cloud.New(cloud.Options{})
		defer after.Close()
		if err := after.Load(file, file.Size()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		register(after, &fired)
		after.Resume()
		synctest.Wait()
		if none != 0 || fired != 1 {
			t.Errorf("fired %d times before and %d times after, want 0 and 1", none, fired)
		}
		client = s3.NewFromConfig(after.Config(), func(o *s3.Options) { o.UsePathStyle = true })
		if _, err := client.PutObject(t.Context(), &s3.PutObjectInput{Bucket: aws.String("tasks"), Key: aws.String("inbox/a"), Body: strings.NewReader("{}")}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if fired != 2 {
			t.Errorf("an object of the loaded bucket started the function %d times, want 1", fired-1)
		}
		if queues := after.SQS().Queues(); len(queues) != 1 {
			t.Errorf("queues: %q", queues)
		}
	})
}

func TestActivityGrowsWithWhatIsToBeSaved(t *testing.T) {
	t.Parallel()
	c := cloud.New(cloud.Options{})
	defer c.Close()
	before := c.Activity()
	if _, err := s3.NewFromConfig(c.Config(), func(o *s3.Options) { o.UsePathStyle = true }).CreateBucket(t.Context(), &s3.CreateBucketInput{Bucket: aws.String("tasks")}); err != nil {
		t.Fatal(err)
	}
	if c.Activity() == before {
		t.Error("a request does not count")
	}
}

func TestLoadRefusesWhatIsNotItsOwn(t *testing.T) {
	t.Parallel()
	elsewhere := cloud.New(cloud.Options{Region: "eu-west-3"})
	defer elsewhere.Close()
	whole := saved(t, elsewhere)
	half := make([]byte, whole.Size()/2)
	if _, err := whole.ReadAt(half, 0); err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		file *bytes.Reader
		want string
	}{
		"empty":            {bytes.NewReader(nil), "zip"},
		"another region":   {whole, "saved by account 000000000000 in eu-west-3"},
		"half of the file": {bytes.NewReader(half), "zip"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := cloud.New(cloud.Options{})
			defer c.Close()
			if err := c.Load(tt.file, tt.file.Size()); err == nil || !strings.Contains(fmt.Sprint(err), tt.want) {
				t.Errorf("error %v, want one with %q", err, tt.want)
			}
		})
	}
}
