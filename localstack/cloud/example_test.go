package cloud_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/sluice-dev/sluice/localstack/cloud"
	"github.com/sluice-dev/sluice/localstack/cloud/lambdaemu"
)

// A new object invokes a function.
func Example() {
	c := cloud.New(cloud.Options{})
	defer c.Close()

	told := make(chan string)
	err := c.Register(lambdaemu.Function{
		Name: "claim",
		Runtime: lambdaemu.Func(func(_ context.Context, payload []byte) ([]byte, error) {
			var event events.S3Event
			if err := json.Unmarshal(payload, &event); err != nil {
				return nil, err
			}
			told <- event.Records[0].S3.Object.URLDecodedKey
			return nil, nil
		}),
	})
	if err != nil {
		fmt.Println(err)
		return
	}

	ctx, client := context.Background(), s3.NewFromConfig(c.Config())
	if _, err := client.CreateBucket(ctx, &s3.CreateBucketInput{Bucket: aws.String("tasks")}); err != nil {
		fmt.Println(err)
		return
	}
	if err := c.NotifyOnCreate("tasks", "inbox/", "claim"); err != nil {
		fmt.Println(err)
		return
	}
	_, err = client.PutObject(ctx, &s3.PutObjectInput{Bucket: aws.String("tasks"), Key: aws.String("inbox/hello world"), Body: strings.NewReader("{}")})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(<-told)
	fmt.Println(c.Requests().Snapshot())
	// Output:
	// inbox/hello world
	// s3.CreateBucket=1 s3.PutObject=1
}

// The answer to the next write is lost; the SDK sends the request again.
func ExampleCloud_FailNext() {
	c := cloud.New(cloud.Options{})
	defer c.Close()
	ctx, client := context.Background(), s3.NewFromConfig(c.Config())
	if _, err := client.CreateBucket(ctx, &s3.CreateBucketInput{Bucket: aws.String("tasks")}); err != nil {
		fmt.Println(err)
		return
	}

	c.FailNext(1, cloud.LostAnswer, func(r *cloud.Request) bool { return r.Is(cloud.S3, "PutObject") })
	_, err := client.PutObject(ctx, &s3.PutObjectInput{
		Bucket: aws.String("tasks"), Key: aws.String("k"), Body: strings.NewReader("{}"), IfNoneMatch: aws.String("*"),
	})
	fmt.Println(codeOf(err)) // the first try has created the object
	fmt.Println(c.Requests().Snapshot().Of(cloud.S3, "PutObject"), "requests")
	// Output:
	// PreconditionFailed
	// 2 requests
}
