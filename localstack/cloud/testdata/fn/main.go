// Command fn is a Lambda function that copies each object it is told of from
// in/ to out/. It is configured by its environment alone.
package main

import (
	"bytes"
	"context"
	"io"
	"strings"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-lambda-go/lambda"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/s3"
)

func main() { lambda.Start(handle) }

func handle(ctx context.Context, event events.S3Event) error {
	cfg, err := config.LoadDefaultConfig(ctx)
	if err != nil {
		return err
	}
	client := s3.NewFromConfig(cfg)
	for _, record := range event.Records {
		bucket, key := record.S3.Bucket.Name, record.S3.Object.URLDecodedKey
		object, err := client.GetObject(ctx, &s3.GetObjectInput{Bucket: &bucket, Key: &key})
		if err != nil {
			return err
		}
		body, err := io.ReadAll(object.Body)
		if err != nil {
			return err
		}
		_, err = client.PutObject(ctx, &s3.PutObjectInput{
			Bucket: &bucket, Key: aws.String("out/" + strings.TrimPrefix(key, "in/")), Body: bytes.NewReader(body),
		})
		if err != nil {
			return err
		}
	}
	return nil
}
