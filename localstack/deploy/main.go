// Command deploy puts the end-to-end stack onto the cloud that the AWS variables of its environment name,
// runs another command against it, and takes the stack down again.
//
//	go run ./localstack/deploy -target ministack -cdk .tools/cdk/node_modules/.bin/cdk -- go test ./localstack/e2e
//
// It is the same real deployment everywhere: `cdk bootstrap`, `cdk deploy`, the function binaries of
// dist/, `cdk destroy`. The command finds the stack by its environment:
//
//	SLUICE_E2E_TARGET               the target's name
//	SLUICE_STACK                    the stack's name
//	SLUICE_BUCKET                   the bucket
//	SLUICE_TABLE                    the limiter's table
//	SLUICE_E2E_CLAIM_FUNCTION       the claim function's name
//	SLUICE_E2E_LIMITER_FUNCTION     the limiter function's name
//	SLUICE_E2E_SWEEP_FUNCTION       the sweep function's name
//	SLUICE_E2E_SCHEDULE_GROUP       the group that holds the wake-ups
//	SLUICE_E2E_DEAD_LETTER_URL      the URL of the dead-letter queue
//	SLUICE_E2E_NOTICES_URL          the URL of the queue that is told of the end of tasks
//	SLUICE_E2E_PYTHON_HANDLER       the name of the function in examples/python-handler
//	SLUICE_E2E_LIMITER_PYTHON       the name of the function in examples/limiter-python
//
//	SLUICE_E2E_UPGRADE              a script that deploys a second version of the stack over the first: other
//	                                binaries, another release
//
// The stack is taken down after a failure and after Ctrl-C as well.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"syscall"
	"time"
)

// destroyLimit is how long taking the stack down may take. It is not cut short by the first Ctrl-C.
const destroyLimit = 10 * time.Minute

func main() {
	var d deployment
	flag.StringVar(&d.Target, "target", "", "the `name` of the cloud: ministack, localstack or aws")
	flag.StringVar(&d.CDK, "cdk", "cdk", "the CDK command `line`")
	flag.StringVar(&d.App, "app", "go run ./localstack/e2e/stack", "the CDK `app` to deploy")
	flag.StringVar(&d.Stack, "stack", "SluiceE2E", "the stack's `name`")
	flag.StringVar(&d.Assets, "assets", "dist/host", "the `folder` that holds the function binaries")
	flag.StringVar(&d.Architecture, "architecture", hostArchitecture(), "what the binaries were built for: arm64 or x86_64")
	flag.BoolVar(&d.Bootstrap, "bootstrap", true, "bootstrap the account for CDK first; turn it off where that is done")
	upgrade := flag.String("upgrade", "", "deploy a second version, from the `folder` of the deployment that runs")
	flag.Parse()
	if *upgrade != "" {
		d.dir = *upgrade
		exit(d.upgrade(context.Background()))
	}
	if d.Target == "" || flag.NArg() == 0 {
		fmt.Fprintln(os.Stderr, "usage: deploy -target name [flags] -- command [argument...]")
		flag.PrintDefaults()
		os.Exit(2)
	}

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	err := d.run(ctx, flag.Args())
	stop()
	exit(err)
}

// exit ends the process with the status of the command that failed.
func exit(err error) {
	if err == nil {
		os.Exit(0)
	}
	fmt.Fprintln(os.Stderr, "deploy:", err)
	var failed *exec.ExitError
	if errors.As(err, &failed) && failed.ExitCode() > 0 {
		os.Exit(failed.ExitCode())
	}
	os.Exit(1)
}

func hostArchitecture() string {
	if runtime.GOARCH == "arm64" {
		return "arm64"
	}

	return "x86_64"
}

// deployment is one stack on one cloud.
type deployment struct {
	Target, CDK, App, Stack, Assets, Architecture string
	Bootstrap                                     bool

	dir string // the synthesised app and the outputs
}

// run deploys, runs the command and destroys, whatever came before.
func (d *deployment) run(ctx context.Context, command []string) (err error) {
	if d.dir, err = os.MkdirTemp("", "sluice-deploy-"); err != nil {
		return fmt.Errorf("making a folder for the synthesised stack: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(d.dir)) }()

	if err := d.synth(ctx, d.assembly(), d.Assets); err != nil {
		return err
	}
	if d.Bootstrap {
		if err := d.cdk(ctx, "bootstrap", "--app", d.assembly()); err != nil {
			return err
		}
	}
	// From here on there may be something to take down, also when the deployment stops half way.
	defer func() { err = errors.Join(err, d.destroy(context.WithoutCancel(ctx))) }()
	if err := d.cdk(ctx, "deploy", d.Stack, "--app", d.assembly(), "--require-approval", "never", "--outputs-file", d.outputsFile()); err != nil {
		return err
	}
	outputs, err := d.outputs()
	if err != nil {
		return err
	}

	script, err := d.writeUpgradeScript()
	if err != nil {
		return err
	}

	return execute(ctx, append(os.Environ(), append(d.variables(outputs), "SLUICE_E2E_UPGRADE="+script)...), command[0], command[1:]...)
}

// synth writes the cloud assembly once, as it is the slow part; the other steps read it.
func (d *deployment) synth(ctx context.Context, assembly, assets string, further ...string) error {
	return d.cdk(ctx, "synth", append([]string{
		"--quiet", "--app", d.App, "--output", assembly,
		"-c", "stack=" + d.Stack, "-c", "target=" + d.Target, "-c", "assets=" + assets, "-c", "architecture=" + d.Architecture,
	}, further...)...)
}

// destroy empties the bucket, since CloudFormation deletes empty ones only, and takes the stack down.
func (d *deployment) destroy(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, destroyLimit)
	defer cancel()
	var errs []error
	if outputs, err := d.outputs(); err == nil {
		errs = append(errs, emptyBucket(ctx, outputs["BucketName"]))
	}

	return errors.Join(append(errs, d.cdk(ctx, "destroy", d.Stack, "--app", d.assembly(), "--force"))...)
}

func (d *deployment) assembly() string    { return filepath.Join(d.dir, "cdk.out") }
func (d *deployment) outputsFile() string { return filepath.Join(d.dir, "outputs.json") }

// stackOutputs are the outputs of the stack that the command is told about.
type stackOutputs map[string]string

// exported are the outputs that the command is told about, each with its variable.
var exported = [][2]string{
	{"BucketName", "SLUICE_BUCKET"},
	{"TableName", "SLUICE_TABLE"},
	{"ClaimFunctionName", "SLUICE_E2E_CLAIM_FUNCTION"},
	{"LimiterFunctionName", "SLUICE_E2E_LIMITER_FUNCTION"},
	{"SweepFunctionName", "SLUICE_E2E_SWEEP_FUNCTION"},
	{"ScheduleGroupName", "SLUICE_E2E_SCHEDULE_GROUP"},
	{"DeadLetterQueueUrl", "SLUICE_E2E_DEAD_LETTER_URL"},
	{"NoticesQueueUrl", "SLUICE_E2E_NOTICES_URL"},
	{"PythonHandlerName", "SLUICE_E2E_PYTHON_HANDLER"},
	{"LimiterPythonName", "SLUICE_E2E_LIMITER_PYTHON"},
}

func (d *deployment) outputs() (stackOutputs, error) {
	data, err := os.ReadFile(d.outputsFile())
	if err != nil {
		return nil, fmt.Errorf("reading the stack's outputs: %w", err)
	}
	var stacks map[string]stackOutputs
	if err := json.Unmarshal(data, &stacks); err != nil {
		return nil, fmt.Errorf("reading the stack's outputs: %w", err)
	}
	outputs := stacks[d.Stack]
	for _, output := range exported {
		if outputs[output[0]] == "" {
			return nil, fmt.Errorf("the stack %s has no output %s", d.Stack, output[0])
		}
	}

	return outputs, nil
}

func (d *deployment) variables(outputs stackOutputs) []string {
	variables := []string{"SLUICE_E2E_TARGET=" + d.Target, "SLUICE_STACK=" + d.Stack}
	for _, output := range exported {
		variables = append(variables, output[1]+"="+outputs[output[0]])
	}

	return variables
}
