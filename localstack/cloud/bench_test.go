package cloud_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/sluice-dev/sluice/localstack/cloud"
)

// BenchmarkPutObject shows what the SDK and the cloud cost together, and
// BenchmarkTransport what the cloud alone does.
func BenchmarkPutObject(b *testing.B) {
	c := cloud.New(cloud.Options{})
	defer c.Close()
	client := s3.NewFromConfig(c.Config())
	if _, err := client.CreateBucket(b.Context(), &s3.CreateBucketInput{Bucket: aws.String(bucket)}); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		_, err := client.PutObject(b.Context(), &s3.PutObjectInput{Bucket: aws.String(bucket), Key: aws.String("k"), Body: strings.NewReader("{}")})
		if err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkTransport(b *testing.B) {
	c := cloud.New(cloud.Options{})
	defer c.Close()
	transport := c.Transport("bench")
	for b.Loop() {
		r, err := http.NewRequestWithContext(b.Context(), http.MethodGet, "http://127.0.0.1/bucket/k", nil)
		if err != nil {
			b.Fatal(err)
		}
		response, err := transport.RoundTrip(r)
		if err != nil {
			b.Fatal(err)
		}
		_ = response.Body.Close()
	}
}
