// Package e2e is the end-to-end suite: it is written once and runs against
// every cloud, with the real function binaries. SLUICE_E2E_TARGET names the cloud;
// without it the suite runs on the embedded one.
package e2e_test

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsconfig "github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/lambda"

	"github.com/sluice-dev/sluice/localstack/cloud"
	"github.com/sluice-dev/sluice/localstack/cloud/lambdaemu"
	"github.com/sluice-dev/sluice/localstack/stack"
	"github.com/sluice-dev/sluice/shared/notice"
	"github.com/sluice-dev/sluice/shared/queue"
	"github.com/sluice-dev/sluice/shared/s3store"
	"github.com/sluice-dev/sluice/shared/task"
)

// target is the deployed Sluice that the suite runs against.
type target struct {
	name          string
	config        aws.Config
	bucket        string
	table         string
	scheduleGroup string
	// claimFunction is the name of the first claim function, httpFunction that of the one which serves
	// http.request, empty if it is the first one.
	claimFunction, httpFunction string
	// limiterFunction and sweepFunction are the names of those functions.
	limiterFunction, sweepFunction string
	// pythonHandler is the name of the function in examples/python-handler.
	pythonHandler string
	// limiterPython is the name of the function in examples/limiter-python, empty where it can't run.
	limiterPython string
	queue         *queue.Queue
	store         *s3store.Store
	// noticesURL is the queue that is told of the end of every task.
	noticesURL string
	// local tells that functions can reach this machine.
	local bool
}

var suite *target

func TestMain(m *testing.M) {
	os.Exit(runSuite(m))
}

func runSuite(m *testing.M) int {
	name := cmp.Or(os.Getenv("SLUICE_E2E_TARGET"), "embedded")
	start := deployed
	if name == "embedded" {
		start = embedded
	}
	s, stop, err := start(name)
	if err != nil {
		fmt.Fprintln(os.Stderr, "e2e:", err)
		return 1
	}
	defer stop()
	s.store = s3store.New(s3store.NewClient(s.config), s.bucket)
	s.queue = queue.Over(s.store)
	suite = s
	return m.Run()
}

// deployed is the stack that the environment names.
func deployed(name string) (*target, func(), error) {
	config, err := awsconfig.LoadDefaultConfig(context.Background())
	if err != nil {
		return nil, nil, err
	}
	return &target{
		name:          name,
		config:        config,
		bucket:        os.Getenv("SLUICE_BUCKET"),
		table:         os.Getenv("SLUICE_TABLE"),
		scheduleGroup: os.Getenv("SLUICE_E2E_SCHEDULE_GROUP"),
		pythonHandler: os.Getenv("SLUICE_E2E_PYTHON_HANDLER"),
		local:         name != "aws",
		noticesURL:    os.Getenv("SLUICE_E2E_NOTICES_URL"),

		claimFunction:   os.Getenv("SLUICE_E2E_CLAIM_FUNCTION"),
		httpFunction:    os.Getenv("SLUICE_E2E_CLAIM_FUNCTION") + "-http",
		limiterPython:   os.Getenv("SLUICE_E2E_LIMITER_PYTHON"),
		limiterFunction: os.Getenv("SLUICE_E2E_LIMITER_FUNCTION"),
		sweepFunction:   os.Getenv("SLUICE_E2E_SWEEP_FUNCTION"),
	}, func() {}, nil
}

// embedded starts the embedded cloud with the functions' real binaries.
func embedded(name string) (*target, func(), error) {
	folder, err := os.MkdirTemp("", "sluice-e2e-*")
	if err != nil {
		return nil, nil, err
	}
	c := cloud.New(cloud.Options{})
	stop := func() {
		if err := c.Close(); err != nil {
			fmt.Fprintln(os.Stderr, "e2e:", err)
		}
		_ = os.RemoveAll(folder)
	}
	s, err := deployEmbedded(c, folder)
	if err != nil {
		stop()
		return nil, nil, err
	}
	t := &target{
		name:          name,
		config:        s.Config("e2e"),
		bucket:        s.Bucket,
		table:         s.Table,
		scheduleGroup: s.ScheduleGroup,
		local:         true,

		claimFunction:   s.Function,
		limiterFunction: s.Limiter,
		sweepFunction:   s.Sweep,
		noticesURL:      "https://sqs." + c.Region() + ".amazonaws.com/" + c.AccountID() + "/" + noticesQueue,
	}
	if err := t.addPythonHandlers(c); err != nil {
		stop()
		return nil, nil, err
	}
	return t, stop, nil
}

// addPythonHandlers adds the handlers of examples/ to the embedded cloud. The one that asks the limiter
// imports boto3, which Lambda has installed and this machine may not have.
func (s *target) addPythonHandlers(c *cloud.Cloud) error {
	interpreter := cmp.Or(os.Getenv("SLUICE_E2E_PYTHON"), "python3")
	register := func(folder string) (string, error) {
		name := "sluice-" + folder
		return name, c.Register(lambdaemu.Function{
			Name: name,
			Runtime: lambdaemu.Python{
				Handler: "handler.handler", Interpreter: interpreter, Dir: filepath.Join("..", "..", "examples", folder),
			},
			Timeout: 30 * time.Second,
			Env:     map[string]string{"SLUICE_LIMITER_FUNCTION": s.limiterFunction},
		})
	}
	var err error
	if s.pythonHandler, err = register("python-handler"); err != nil {
		return err
	}
	if exec.Command(interpreter, "-c", "import boto3").Run() == nil {
		s.limiterPython, err = register("limiter-python")
	}
	return err
}

func deployEmbedded(c *cloud.Cloud, folder string) (*stack.Stack, error) {
	build := exec.Command("go", "build", "-tags", "lambda.norpc", "-o", folder+string(filepath.Separator), "../../functions/...")
	build.Stderr = os.Stderr
	if err := build.Run(); err != nil {
		return nil, fmt.Errorf("build the functions: %w", err)
	}
	process := func(name string) func(map[string]string) lambdaemu.Runtime {
		return stack.Process(filepath.Join(folder, name))
	}
	return stack.Deploy(context.Background(), c, stack.Options{
		Claim:       process("claim"),
		Limiter:     process("limiter"),
		Reset:       process("reset"),
		Sweep:       process("sweep"),
		Notices:     map[string]string{notice.OtherTypes: noticesQueue},
		Environment: map[string]string{"SLUICE_HTTP_HOSTS": "*", "SLUICE_SWEEP_GRACE": "1s", "SLUICE_RETENTION_EVERY": "1ms"},
	})
}

// noticesQueue is the name of the queue for notices on the embedded cloud.
const noticesQueue = "sluice-notices"

// submit submits a task for the Python handler.
func (s *target) submit(t *testing.T, wish string, opts ...queue.Option) task.Task {
	t.Helper()
	input := fmt.Sprintf(`{"function":%q,"payload":%s}`, s.pythonHandler, wish)
	made, err := s.queue.Submit(t.Context(), "lambda.invoke", rawJSON(input), opts...)
	if err != nil {
		t.Fatal(err)
	}
	return made
}

// patience is how long a task may take: a schedule fires up to a minute late,
// and emulators share the machine with everything else.
const patience = 4 * time.Minute

func (s *target) wait(t *testing.T, id string) task.Task {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	got, err := s.queue.Wait(ctx, id)
	if err != nil {
		t.Fatalf("%v: %s", err, got.Encode())
	}
	return got
}

// eventually looks again and again until something is so.
func (s *target) eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !is(); time.Sleep(time.Second) {
		if time.Now().After(deadline) {
			t.Fatalf("not after %v: %s", patience, what)
		}
	}
}

// sweep runs the sweep function once.
func (s *target) sweep(t *testing.T) {
	t.Helper()
	swept, err := lambda.NewFromConfig(s.config).Invoke(t.Context(), &lambda.InvokeInput{FunctionName: &s.sweepFunction, Payload: []byte("{}")})
	if err != nil {
		t.Fatal(err)
	}
	if swept.FunctionError != nil {
		t.Fatalf("the sweep failed: %s", swept.Payload)
	}
}
