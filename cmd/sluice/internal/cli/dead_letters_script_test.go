package cli

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/sluice-dev/sluice/localstack/cloud"
	"github.com/sluice-dev/sluice/localstack/cloud/lambdaemu"
	"github.com/sluice-dev/sluice/localstack/cloud/sqsemu"
	"github.com/sluice-dev/sluice/localstack/stack"
)

// TestDeadLetterScripts runs the scripts of testdata/deadletters, each against a cloud of its own with a
// deployed queue, whose claim function writes down what it is started with.
func TestDeadLetterScripts(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/deadletters",
		RequireExplicitExec: true,
		Setup:               setupDeadLetters,
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"exits":    exits,
			"json":     checkJSONOutput,
			"jsonl":    checkJSONLines,
			"letter":   sendLetter,
			"started":  started,
			"refusing": refusing,
			"left":     left,
		},
	})
}

// letterBox is the cloud of one script.
type letterBox struct {
	*stack.Stack

	mu      sync.Mutex
	started []string
	// refuses makes Lambda accept no events.
	refuses atomic.Bool
}

type letterBoxKey struct{}

func setupDeadLetters(env *testscript.Env) error {
	c := cloud.New(cloud.Options{})
	env.Defer(func() { _ = c.Close() })
	box := &letterBox{}
	c.SetFault(func(r *cloud.Request) cloud.Fault {
		if box.refuses.Load() && r.Service == cloud.Lambda && r.HTTP.Method == http.MethodPost {
			return cloud.Fault{Status: http.StatusTooManyRequests, Code: "TooManyRequestsException", Message: "Rate Exceeded."}
		}
		return cloud.Fault{}
	})
	ctx, cancel := testContext()
	defer cancel()
	var err error
	box.Stack, err = stack.Deploy(ctx, c, stack.Options{Claim: func(map[string]string) lambdaemu.Runtime {
		return lambdaemu.Func(func(_ context.Context, payload []byte) ([]byte, error) {
			box.mu.Lock()
			defer box.mu.Unlock()
			box.started = append(box.started, string(payload))
			return nil, nil
		})
	}})
	if err != nil {
		return err
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.Contains(r.Header.Get("Authorization"), "/cloudformation/") {
			describeOutputs(w, map[string]string{
				"BucketName": box.Bucket, "ClaimFunctionName": box.Function,
				"DeadLetterQueueUrl": "http://" + r.Host + "/" + c.AccountID() + "/" + box.DeadLetters,
			})
			return
		}
		c.ServeHTTP(w, r)
	}))
	env.Defer(server.Close)
	env.Values[letterBoxKey{}] = box
	env.Vars = append(env.Vars,
		"AWS_ENDPOINT_URL="+server.URL, "AWS_ACCESS_KEY_ID=test", "AWS_SECRET_ACCESS_KEY=test",
		"AWS_REGION=us-east-1", "AWS_EC2_METADATA_DISABLED=true", "AWS_MAX_ATTEMPTS=1",
		"SLUICE_BUCKET="+box.Bucket, "HOME="+env.WorkDir, "TZ=UTC", "TERM=xterm")
	return nil
}

func boxOf(ts *testscript.TestScript) *letterBox {
	box, ok := ts.Value(letterBoxKey{}).(*letterBox)
	if !ok {
		ts.Fatalf("the script has no cloud")
	}
	return box
}

// letter FILE [NAME=VALUE...]: puts a message with these attributes into the dead letters.
func sendLetter(ts *testscript.TestScript, _ bool, args []string) {
	box := boxOf(ts)
	attributes := map[string]sqsemu.Attribute{}
	for _, pair := range args[1:] {
		name, value, _ := strings.Cut(pair, "=")
		attributes[name] = sqsemu.Text(value)
	}
	_, err := box.Cloud.SQS().Send(box.DeadLetters, strings.TrimSpace(ts.ReadFile(args[0])), attributes)
	ts.Check(err)
}

// started N FILE: waits until the claim function was started N times, and writes what with into the file, one
// on a line, sorted.
func started(ts *testscript.TestScript, _ bool, args []string) {
	box := boxOf(ts)
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	ctx, cancel := testContext()
	defer cancel()
	for ctx.Err() == nil {
		box.mu.Lock()
		got := slices.Sorted(slices.Values(box.started))
		box.mu.Unlock()
		if len(got) >= want {
			ts.Check(os.WriteFile(ts.MkAbs(args[1]), []byte(strings.Join(append(got, ""), "\n")), 0o600))
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	ts.Fatalf("the claim function was started less than %d times", want)
}

// refusing: from now on Lambda accepts no events, with ! it does again.
func refusing(ts *testscript.TestScript, neg bool, _ []string) { boxOf(ts).refuses.Store(!neg) }

// left N: so many letters are in the queue, and all can be seen.
func left(ts *testscript.TestScript, _ bool, args []string) {
	box := boxOf(ts)
	if n := len(box.Cloud.SQS().Messages(box.DeadLetters)); args[0] != number(int64(n)) {
		ts.Fatalf("%d letters are left, want %s", n, args[0])
	}
}

// describeOutputs answers with a stack of these outputs.
func describeOutputs(w http.ResponseWriter, outputs map[string]string) {
	var members strings.Builder
	for name, value := range outputs {
		fmt.Fprintf(&members, "<member><OutputKey>%s</OutputKey><OutputValue>%s</OutputValue></member>", name, value)
	}
	w.Header().Set("Content-Type", "text/xml")
	fmt.Fprintf(w, `<DescribeStacksResponse xmlns="http://cloudformation.amazonaws.com/doc/2010-05-15/"><DescribeStacksResult><Stacks><member><StackName>s</StackName><StackStatus>CREATE_COMPLETE</StackStatus><CreationTime>2027-01-01T00:00:00Z</CreationTime><Outputs>%s</Outputs></member></Stacks></DescribeStacksResult></DescribeStacksResponse>`, &members)
}
