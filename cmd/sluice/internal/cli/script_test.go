package cli

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/google/uuid"
	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/sync/errgroup"

	"github.com/sluice-dev/sluice/localstack/cloud/s3emu"
	"github.com/sluice-dev/sluice/shared/s3store"
	"github.com/sluice-dev/sluice/shared/task"
)

func TestMain(m *testing.M) {
	testscript.Main(cleaning{m}, map[string]func(){"sluice": func() { os.Exit(Main()) }})
}

// cleaning removes what tests have built.
type cleaning struct{ *testing.M }

func (m cleaning) Run() int {
	defer func() { _ = os.RemoveAll(filepath.Dir(claimPath())) }() // nothing to do about it
	return m.M.Run()
}

func claimPath() string {
	return filepath.Join(os.TempDir(), fmt.Sprintf("sluice-claim-%d", os.Getpid()), "bootstrap")
}

// TestScripts runs the scripts of testdata, each against an S3 of its own with
// the versioned bucket "tasks".
func TestScripts(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata",
		RequireExplicitExec: true,
		Setup:               newCloud,
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"exits":      exits,
			"json":       checkJSONOutput,
			"jsonl":      checkJSONLines,
			"setenv":     setenv,
			"seed":       seed,
			"event":      applyEvent,
			"interrupt":  interrupt,
			"killed":     killed,
			"eventually": eventually,
			"claim":      buildClaim,
			"exports":    exports,
			"versioning": setVersioning,
			"damage":     damage,
		},
	})
}

// scriptCloud is the S3 of one script, and a CloudFormation of two stacks.
type scriptCloud struct {
	store *s3store.Store
	// submitted is called, if set, when a task was accepted and before that is answered.
	submitted atomic.Pointer[func()]
}

type scriptCloudKey struct{}

func newCloud(env *testscript.Env) error {
	c := &scriptCloud{}
	emulated := s3emu.New(s3emu.Options{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.Contains(r.Header.Get("Authorization"), "/cloudformation/") {
			describeStacks(w, r)
			return
		}
		submits := r.Method == http.MethodPut && strings.HasPrefix(r.URL.Path, "/tasks/inbox/")
		if hook := c.submitted.Load(); submits && hook != nil {
			answer := httptest.NewRecorder()
			emulated.ServeHTTP(answer, r)
			(*hook)()
			maps.Copy(w.Header(), answer.Header())
			w.WriteHeader(answer.Code)
			_, _ = w.Write(answer.Body.Bytes())
			return
		}
		emulated.ServeHTTP(w, r)
	}))
	env.Defer(server.Close)
	client := s3store.NewClient(aws.Config{
		Region: "us-east-1", BaseEndpoint: &server.URL,
		Credentials: credentials.NewStaticCredentialsProvider("test", "test", ""),
	})
	c.store = s3store.New(client, "tasks")
	if err := createBucket(client, "tasks"); err != nil {
		return err
	}
	env.Values[scriptCloudKey{}] = c
	env.Vars = append(env.Vars,
		"AWS_ENDPOINT_URL="+server.URL, "AWS_ACCESS_KEY_ID=test", "AWS_SECRET_ACCESS_KEY=test",
		"AWS_REGION=us-east-1", "AWS_EC2_METADATA_DISABLED=true", "AWS_MAX_ATTEMPTS=1",
		"SLUICE_BUCKET=tasks", "HOME="+env.WorkDir, "TZ=UTC", "TERM=xterm")
	return nil
}

func createBucket(client *s3.Client, bucket string) error {
	ctx, cancel := testContext()
	defer cancel()
	_, err := client.CreateBucket(ctx, &s3.CreateBucketInput{Bucket: &bucket})
	if err != nil {
		return err
	}
	_, err = client.PutBucketVersioning(ctx, &s3.PutBucketVersioningInput{
		Bucket:                  &bucket,
		VersioningConfiguration: &types.VersioningConfiguration{Status: types.BucketVersioningStatusEnabled},
	})
	return err
}

// describeStacks knows the stack "production", whose bucket is "tasks", and the stack
// "other", which is none of ours.
func describeStacks(w http.ResponseWriter, r *http.Request) {
	outputs := map[string]string{
		"production": "<member><OutputKey>BucketName</OutputKey><OutputValue>tasks</OutputValue></member>",
		"other":      "<member><OutputKey>Url</OutputKey><OutputValue>https://example.com</OutputValue></member>",
	}
	name := r.FormValue("StackName")
	w.Header().Set("Content-Type", "text/xml")
	if outputs[name] == "" {
		w.WriteHeader(http.StatusBadRequest)
		fmt.Fprintf(w, `<ErrorResponse xmlns="http://cloudformation.amazonaws.com/doc/2010-05-15/"><Error><Type>Sender</Type><Code>ValidationError</Code><Message>Stack with id %s does not exist</Message></Error></ErrorResponse>`, name)
		return
	}
	fmt.Fprintf(w, `<DescribeStacksResponse xmlns="http://cloudformation.amazonaws.com/doc/2010-05-15/"><DescribeStacksResult><Stacks><member><StackName>%s</StackName><StackStatus>CREATE_COMPLETE</StackStatus><CreationTime>2027-01-01T00:00:00Z</CreationTime><Outputs>%s</Outputs></member></Stacks></DescribeStacksResult></DescribeStacksResponse>`, name, outputs[name])
}

func cloudOf(ts *testscript.TestScript) *scriptCloud {
	c, ok := ts.Value(scriptCloudKey{}).(*scriptCloud)
	if !ok {
		ts.Fatalf("the script has no cloud")
	}
	return c
}

// exits CODE COMMAND...: the command ends with the code.
func exits(ts *testscript.TestScript, _ bool, args []string) {
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	err = ts.Exec(args[1], args[2:]...)
	got := 0
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		got = exit.ExitCode()
	case err != nil:
		ts.Fatalf("%v", err)
	}
	if got != want {
		ts.Fatalf("exit code %d, want %d", got, want)
	}
	if stderr := ts.ReadFile("stderr"); got == exitUsage && strings.Count(stderr, "\n") != 1 {
		ts.Fatalf("wrong use is told in one line, not in %q", stderr)
	}
}

// json FILE PATH VALUE: the JSON in the file (or stdout) has the value at the
// path, such as .0.input. A path may end in "length". [!] turns it round.
func checkJSONOutput(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 3 {
		ts.Fatalf("usage: json FILE PATH VALUE")
	}
	var doc, want any
	if err := json.Unmarshal([]byte(ts.ReadFile(args[0])), &doc); err != nil {
		ts.Fatalf("%s is not JSON: %v\n%s", args[0], err, ts.ReadFile(args[0]))
	}
	ts.Check(json.Unmarshal([]byte(args[2]), &want))
	for _, step := range strings.FieldsFunc(args[1], func(r rune) bool { return r == '.' }) {
		doc = stepInto(doc, step)
	}
	if reflect.DeepEqual(doc, want) == neg {
		got, err := json.Marshal(doc)
		ts.Check(err)
		ts.Fatalf("%s is %s, want %s (unless !)", args[1], got, args[2])
	}
}

// jsonl FILE PATH VALUE: as json, for a file with a JSON value on each line, which are
// numbered from 0.
func checkJSONLines(ts *testscript.TestScript, neg bool, args []string) {
	text := strings.TrimSuffix(ts.ReadFile(args[0]), "\n")
	doc := "[" + strings.ReplaceAll(text, "\n", ",") + "]"
	ts.Check(os.WriteFile(ts.MkAbs("lines.json"), []byte(doc), 0o600))
	checkJSONOutput(ts, neg, append([]string{"lines.json"}, args[1:]...))
}

func stepInto(doc any, step string) any {
	switch v := doc.(type) {
	case map[string]any:
		return v[step]
	case []any:
		if step == "length" {
			return float64(len(v))
		}
		if i, err := strconv.Atoi(step); err == nil && i < len(v) {
			return v[i]
		}
	}
	return nil
}

// setenv NAME FILE: the variable is the content of the file (or stdout), trimmed.
func setenv(ts *testscript.TestScript, _ bool, args []string) {
	ts.Setenv(args[0], strings.TrimSpace(ts.ReadFile(args[1])))
}

// seed N: submits N tasks in the order of time, and writes their ids to the file ids.
func seed(ts *testscript.TestScript, _ bool, args []string) {
	n, err := strconv.Atoi(args[0])
	ts.Check(err)
	store := cloudOf(ts).store
	ctx, cancel := testContext()
	defer cancel()
	var ids strings.Builder
	var group errgroup.Group
	group.SetLimit(16)
	for range n {
		id := uuid.Must(uuid.NewV7()).String()
		ids.WriteString(id + "\n")
		group.Go(func() error {
			_, err := store.Submit(ctx, task.New(id, "seeded", time.Now()))
			return err
		})
	}
	ts.Check(group.Wait())
	ts.Check(os.WriteFile(ts.MkAbs("ids"), []byte(ids.String()), 0o600))
}

// event ID claim|complete|fail|reschedule [VALUE]: does to a task what the claim function
// would.
func applyEvent(ts *testscript.TestScript, _ bool, args []string) {
	ctx, cancel := testContext()
	defer cancel()
	store := cloudOf(ts).store
	rec, err := store.Find(ctx, args[0])
	ts.Check(err)
	value := strings.Join(args[2:], " ")
	var event task.Event
	switch args[1] {
	case "claim":
		event = task.Claim{LeaseID: uuid.NewString(), WorkerID: value, LeaseExpiresAt: time.Now().Add(time.Hour)}
	case "complete":
		event = task.Success{Output: json.RawMessage(value)}
	case "fail":
		text, err := strconv.Unquote(`"` + value + `"`)
		ts.Check(err)
		event = task.Failure{Error: text, Permanent: true}
	case "reschedule":
		d, err := time.ParseDuration(value)
		ts.Check(err)
		event = task.Reschedule{Delay: d}
	}
	next, effects, err := task.Apply(rec.Task, event, time.Now())
	ts.Check(err)
	_, err = store.Write(ctx, rec, next)
	ts.Check(err)
	if effects.Finished {
		ts.Check(store.Remove(ctx, args[0], next.InboxVersion))
	}
}

// interrupt [CODE] TEXT COMMAND...: starts the command with a standard input that stays
// open, sends SIGINT once its output holds the text, and wants the exit code, or 130. What it
// said is in the file said.
func interrupt(ts *testscript.TestScript, _ bool, args []string) {
	want := exitSignal + int(syscall.SIGINT)
	if code, err := strconv.Atoi(args[0]); err == nil {
		want, args = code, args[1:]
	}
	ctx, cancel := testContext()
	defer cancel()
	cmd := exec.CommandContext(ctx, find(ts, args[1]), args[2:]...)
	cmd.Dir, cmd.Env = ts.MkAbs("."), environment(ts)
	stdin, err := cmd.StdinPipe()
	ts.Check(err)
	defer stdin.Close()
	_, err = io.WriteString(stdin, "{\"task_type\":\"a\"}\nnonsense\n")
	ts.Check(err)
	output, input := io.Pipe()
	cmd.Stdout, cmd.Stderr = input, input
	ts.Check(cmd.Start())
	ended := make(chan error, 1)
	go func() {
		ended <- cmd.Wait()
		input.Close()
	}()
	var said strings.Builder
	var once sync.Once
	lines := bufio.NewScanner(output)
	for lines.Scan() {
		said.WriteString(lines.Text() + "\n")
		if strings.Contains(lines.Text(), args[0]) {
			once.Do(func() { ts.Check(cmd.Process.Signal(syscall.SIGINT)) })
		}
	}
	<-ended // its exit code says it all
	if got := cmd.ProcessState.ExitCode(); got != want {
		ts.Fatalf("exit code %d, want %d; it said\n%s", got, want, said.String())
	}
	ts.Check(os.WriteFile(ts.MkAbs("said"), []byte(said.String()), 0o600))
}

// killed N COMMAND...: starts the command and kills it with SIGKILL when it has submitted N
// tasks: the last of them before it gets to know.
func killed(ts *testscript.TestScript, _ bool, args []string) {
	n, err := strconv.ParseInt(args[0], 10, 64)
	ts.Check(err)
	ctx, cancel := testContext()
	defer cancel()
	cmd := exec.CommandContext(ctx, find(ts, args[1]), args[2:]...)
	cmd.Dir, cmd.Env = ts.MkAbs("."), environment(ts)
	c := cloudOf(ts)
	var submits atomic.Int64
	reached := make(chan struct{})
	hook := func() {
		submitted := submits.Add(1)
		if submitted == n {
			close(reached)
		}
		if submitted >= n {
			<-ctx.Done() // no answer gets through any more
		}
	}
	c.submitted.Store(&hook)
	defer c.submitted.Store(nil)
	ts.Check(cmd.Start())
	ended := make(chan struct{})
	go func() {
		_ = cmd.Wait() // how it ended is looked at below
		close(ended)
	}()
	select {
	case <-reached:
		_ = cmd.Process.Kill()
		<-ended
	case <-ended:
	}
	if cmd.ProcessState.ExitCode() != -1 {
		ts.Fatalf("it was not killed, it ended with exit code %d", cmd.ProcessState.ExitCode())
	}
}

// environment is what a command needs of the script's variables.
func environment(ts *testscript.TestScript) (env []string) {
	for _, name := range []string{"AWS_ENDPOINT_URL", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_REGION", "SLUICE_BUCKET", "HOME", "PATH"} {
		env = append(env, name+"="+ts.Getenv(name))
	}
	return env
}

// find looks a program up in the script's PATH.
func find(ts *testscript.TestScript, name string) string {
	for dir := range strings.SplitSeq(ts.Getenv("PATH"), string(os.PathListSeparator)) {
		if _, err := os.Stat(filepath.Join(dir, name)); err == nil {
			return filepath.Join(dir, name)
		}
	}
	return name
}

// eventually FILE PATTERN: waits until the file, which another command is writing, matches.
func eventually(ts *testscript.TestScript, _ bool, args []string) {
	pattern, err := regexp.Compile("(?m)" + args[1])
	ts.Check(err)
	ctx, cancel := testContext()
	defer cancel()
	for ctx.Err() == nil {
		if text, err := os.ReadFile(ts.MkAbs(args[0])); err == nil && pattern.Match(text) {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	ts.Fatalf("%s never held %s", args[0], args[1])
}

// claimFunction builds the claim function once.
var claimFunction = sync.OnceValues(func() (path string, err error) {
	path = claimPath()
	build := exec.Command("go", "build", "-tags", "lambda.norpc", "-o", path, "../../../../functions/claim")
	if text, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the claim function: %w\n%s", err, text)
	}
	return path, nil
})

// claim NAME: the variable is the path of the compiled claim function.
func buildClaim(ts *testscript.TestScript, _ bool, args []string) {
	path, err := claimFunction()
	ts.Check(err)
	ts.Setenv(args[0], path)
}

// exports FILE: sets the variables of the lines "export NAME=VALUE..." of the file.
func exports(ts *testscript.TestScript, _ bool, args []string) {
	for line := range strings.Lines(ts.ReadFile(args[0])) {
		pairs, ok := strings.CutPrefix(line, "export ")
		if !ok {
			continue
		}
		for pair := range strings.FieldsSeq(pairs) {
			name, value, _ := strings.Cut(pair, "=")
			ts.Setenv(name, value)
		}
	}
}

// versioning Enabled|Suspended: switches the versions of the bucket in SLUICE_BUCKET.
func setVersioning(ts *testscript.TestScript, _ bool, args []string) {
	ctx, cancel := testContext()
	defer cancel()
	_, err := scriptS3(ts).PutBucketVersioning(ctx, &s3.PutBucketVersioningInput{
		Bucket:                  aws.String(ts.Getenv("SLUICE_BUCKET")),
		VersioningConfiguration: &types.VersioningConfiguration{Status: types.BucketVersioningStatus(args[0])},
	})
	ts.Check(err)
}

// damage ID [input]: writes something else over a task's record, or over its large input.
func damage(ts *testscript.TestScript, _ bool, args []string) {
	ctx, cancel := testContext()
	defer cancel()
	key := s3store.TaskKey(args[0])
	if len(args) > 1 {
		rec, err := cloudOf(ts).store.Find(ctx, args[0])
		ts.Check(err)
		key = rec.Task.InputRef.Key
	}
	_, err := scriptS3(ts).PutObject(ctx, &s3.PutObjectInput{
		Bucket: aws.String(ts.Getenv("SLUICE_BUCKET")), Key: &key, Body: strings.NewReader("{"),
	})
	ts.Check(err)
}

func scriptS3(ts *testscript.TestScript) *s3.Client {
	return s3store.NewClient(aws.Config{
		Region: "us-east-1", BaseEndpoint: aws.String(ts.Getenv("AWS_ENDPOINT_URL")),
		Credentials: credentials.NewStaticCredentialsProvider("test", "test", ""),
	})
}
