package cloud_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"go.uber.org/goleak"

	"github.com/sluice-dev/sluice/localstack/cloud"
	"github.com/sluice-dev/sluice/localstack/cloud/lambdaemu"
)

// temporary is a directory for the time of the tests.
var temporary string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "cloud")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	temporary = dir
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		_ = os.RemoveAll(dir)
		os.Exit(code)
	}))
}

// buildFunction compiles testdata/fn, once.
var buildFunction = sync.OnceValues(func() (string, error) {
	path := filepath.Join(temporary, "bootstrap")
	build := exec.Command("go", "build", "-tags", "lambda.norpc", "-o", path, "./testdata/fn")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	return path, nil
})

const bucket = "bucket"

// bundle is a cloud with a bucket and an S3 client.
type bundle struct {
	*cloud.Cloud

	s3 *s3.Client
}

// setup makes a cloud with a bucket, whose creation is not counted. It is
// closed at the end of the test.
func setup(t *testing.T, opts cloud.Options) *bundle {
	t.Helper()
	c := cloud.New(opts)
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	b := &bundle{Cloud: c, s3: s3.NewFromConfig(c.Config())}
	if _, err := b.s3.CreateBucket(t.Context(), &s3.CreateBucketInput{Bucket: aws.String(bucket)}); err != nil {
		t.Fatal(err)
	}
	c.Requests().Reset()
	return b
}

func (b *bundle) put(ctx context.Context, key, body string) error {
	_, err := b.s3.PutObject(ctx, &s3.PutObjectInput{Bucket: aws.String(bucket), Key: aws.String(key), Body: bytes.NewReader([]byte(body))})
	return err
}

func (b *bundle) mustPut(t *testing.T, key, body string) {
	t.Helper()
	if err := b.put(t.Context(), key, body); err != nil {
		t.Fatalf("put %s: %v", key, err)
	}
}

func (b *bundle) get(ctx context.Context, key string) (string, error) {
	out, err := b.s3.GetObject(ctx, &s3.GetObjectInput{Bucket: aws.String(bucket), Key: aws.String(key)})
	if err != nil {
		return "", err
	}
	defer out.Body.Close()
	body, err := io.ReadAll(out.Body)
	return string(body), err
}

// payloads collects the events of a function.
type payloads struct {
	mu  sync.Mutex
	all []string
}

func (p *payloads) function(name string) lambdaemu.Function {
	return lambdaemu.Function{Name: name, Runtime: lambdaemu.Func(func(_ context.Context, payload []byte) ([]byte, error) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.all = append(p.all, string(payload))
		return nil, nil
	})}
}

func (p *payloads) list() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]string(nil), p.all...)
}

func (b *bundle) register(t *testing.T, fn lambdaemu.Function) {
	t.Helper()
	if err := b.Register(fn); err != nil {
		t.Fatal(err)
	}
}
