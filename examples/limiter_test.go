package examples_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/lambda"

	"github.com/sluice-dev/sluice/localstack/cloud"
	"github.com/sluice-dev/sluice/localstack/cloud/lambdaemu"
	"github.com/sluice-dev/sluice/shared/dynamolimit"
	"github.com/sluice-dev/sluice/shared/lambdalimit"
	"github.com/sluice-dev/sluice/shared/limit"
)

// bundle is a cloud with the limiter function, and a handler beside it.
type bundle struct {
	*testing.T

	cloud   *cloud.Cloud
	url     string
	limiter *dynamolimit.Limiter
	call    func(event string) (answer string, err error)
}

const limiterFunction = "sluice-limiter"

func setup(t *testing.T) *bundle {
	t.Helper()
	c := cloud.New(cloud.Options{})
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	url, err := c.Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	client := dynamodb.NewFromConfig(c.Config())
	if _, err := client.CreateTable(t.Context(), dynamolimit.Table("limits")); err != nil {
		t.Fatal(err)
	}
	b := &bundle{T: t, cloud: c, url: url, limiter: dynamolimit.New(client, "limits", dynamolimit.WithLog(slog.New(slog.DiscardHandler)))}
	h := &lambdalimit.Handler{Limiter: b.limiter, Log: slog.New(slog.DiscardHandler)}
	if err := c.Register(lambdaemu.Function{Name: limiterFunction, Timeout: 30 * time.Second, Runtime: lambdaemu.Func(h.Invoke)}); err != nil {
		t.Fatal(err)
	}
	doc, err := os.ReadFile(filepath.Join("limiter-python", "policies.json"))
	if err != nil {
		t.Fatal(err)
	}
	var policies []limit.Policy
	if err := json.Unmarshal(doc, &policies); err != nil {
		t.Fatal(err)
	}
	if err := b.limiter.Declare(t.Context(), 1, policies...); err != nil {
		t.Fatal(err)
	}
	// Slower, so that nothing to speak of refills while the test runs.
	if _, err := b.limiter.SetOverride(t.Context(), "tpm", limit.Override{Interval: new(24 * time.Hour)}); err != nil {
		t.Fatal(err)
	}
	return b
}

func TestThePythonHandlerAsksTheLimiter(t *testing.T) {
	t.Parallel()
	if exec.CommandContext(t.Context(), "python3", "-c", "import boto3").Run() != nil {
		t.Skip("not run: there is no python3 with boto3")
	}
	b := setup(t)
	const name = "limiter-python"
	err := b.cloud.Register(lambdaemu.Function{
		Name: name, Timeout: time.Minute, Env: map[string]string{"SLUICE_LIMITER_FUNCTION": limiterFunction},
		Runtime: lambdaemu.Python{Handler: "handler.handler", Dir: name},
	})
	if err != nil {
		t.Fatal(err)
	}
	client := lambda.NewFromConfig(b.cloud.Config())
	b.call = func(event string) (string, error) {
		out, err := client.Invoke(t.Context(), &lambda.InvokeInput{FunctionName: aws.String(name), Payload: []byte(event)})
		switch {
		case err != nil:
			return "", err
		case out.FunctionError != nil:
			return "", errors.New(string(out.Payload))
		}
		return string(out.Payload), nil
	}
	b.handlerAsksTheLimiter()
}

// clientLambda stands in for the package that Lambda's Node.js has installed.
const clientLambda = `
export class InvokeCommand { constructor(input) { this.input = input; } }
export class LambdaClient {
  constructor(config) { if (config.maxAttempts !== 1) throw new Error("the SDK must not repeat invocations"); }
  async send({ input }) {
    const url = process.env.AWS_ENDPOINT_URL + "/2015-03-31/functions/" + input.FunctionName + "/invocations";
    const response = await fetch(url, { method: "POST", body: input.Payload });
    return { Payload: new Uint8Array(await response.arrayBuffer()), FunctionError: response.headers.get("X-Amz-Function-Error") };
  }
}`

const runHandler = `
import { handler } from "./index.mjs";
console.log(JSON.stringify(await handler(JSON.parse(process.argv[2]), { awsRequestId: crypto.randomUUID() })));`

func TestTheNodeHandlerAsksTheLimiter(t *testing.T) {
	t.Parallel()
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip("not run: there is no node")
	}
	b := setup(t)
	handler, err := os.ReadFile(filepath.Join("limiter-node", "index.mjs"))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	installed := filepath.Join(dir, "node_modules", "@aws-sdk", "client-lambda")
	if err := os.MkdirAll(installed, 0o755); err != nil {
		t.Fatal(err)
	}
	for path, text := range map[string]string{
		filepath.Join(dir, "index.mjs"):          string(handler),
		filepath.Join(dir, "run.mjs"):            runHandler,
		filepath.Join(installed, "index.mjs"):    clientLambda,
		filepath.Join(installed, "package.json"): `{"name": "@aws-sdk/client-lambda", "type": "module", "exports": "./index.mjs"}`,
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	b.call = func(event string) (string, error) {
		cmd := exec.CommandContext(t.Context(), node, "run.mjs", event)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "AWS_ENDPOINT_URL="+b.url, "SLUICE_LIMITER_FUNCTION="+limiterFunction)
		var stderr strings.Builder
		cmd.Stderr = &stderr
		out, err := cmd.Output()
		if err != nil {
			return "", fmt.Errorf("%w: %s", err, stderr.String())
		}
		return string(out), nil
	}
	b.handlerAsksTheLimiter()
}

// answer is what a handler may return to lambda.invoke.
type answer struct {
	Output *struct {
		Text   string `json:"text"`
		Tokens int64  `json:"tokens"`
	} `json:"output"`
	Reschedule *float64 `json:"reschedule"`
	Error      string   `json:"error"`
	Permanent  bool     `json:"permanent"`
}

// ask has the handler work on an input.
func (b *bundle) ask(input string) answer {
	b.Helper()
	out, err := b.call(`{"task_id":"t1","attempt":1,"retry_count":0,"reschedule_count":0,"input":` + input + `}`)
	if err != nil {
		b.Fatalf("%s: %v", input, err)
	}
	var a answer
	if err := json.Unmarshal([]byte(out), &a); err != nil {
		b.Fatalf("%s: %v in %s", input, err, out)
	}
	return a
}

func (b *bundle) reading(policy, key string) limit.Reading {
	b.Helper()
	r, err := b.limiter.Inspect(b.Context(), limit.Policy{Name: policy}.Key(key))
	if err != nil {
		b.Fatal(err)
	}
	return r
}

// handlerAsksTheLimiter holds for the handler in every language.
func (b *bundle) handlerAsksTheLimiter() {
	// The true cost is settled: 3 of the 90,000 that were charged, so the second call fits too.
	for _, key := range []string{"acme", "acme"} {
		got := b.ask(`{"customer":"` + key + `","prompt":"one two three","max_tokens":90000}`)
		if got.Output == nil || got.Output.Text != "ONE TWO THREE" || got.Output.Tokens != 3 {
			b.Fatalf("%+v", got)
		}
	}
	if r := b.reading("tpm", "acme"); r.Used > 6 {
		b.Errorf("%d tokens used, want at most the 6 of the answers", r.Used)
	}

	// Denied: asleep until there is room, at 100,000 a day.
	if err := b.limiter.Grant(b.Context(), limit.Policy{Name: "tpm"}.Key("acme"), -limit.MaxUnits); err != nil {
		b.Fatal(err)
	}
	got := b.ask(`{"customer":"acme","prompt":"x","max_tokens":100000}`)
	if got.Reschedule == nil || *got.Reschedule < 3600 || *got.Reschedule > 24*3600 {
		b.Errorf("%+v, want a sleep of up to a day", got)
	}

	// More than there can ever be: failed at once.
	if got := b.ask(`{"customer":"acme","prompt":"x","max_tokens":100001}`); !got.Permanent || got.Error == "" {
		b.Errorf("%+v, want a permanent error", got)
	}

	// A 429 of the vendor holds the key, and costs nothing.
	got = b.ask(`{"customer":"busy","prompt":"x","max_tokens":100,"busy":7200}`)
	if got.Reschedule == nil || *got.Reschedule != 7200 {
		b.Errorf("%+v, want a sleep of two hours", got)
	}
	if r := b.reading("vendor", "busy"); r.HeldUntil.IsZero() || b.reading("tpm", "busy").Used != 0 {
		b.Errorf("%+v, want it held and nothing used", r)
	}
	if got := b.ask(`{"customer":"busy","prompt":"x","max_tokens":1}`); got.Reschedule == nil {
		b.Errorf("%+v, want it to wait for the end of the hold", got)
	}

	// An error of the limiter is an exception.
	if out, err := b.call(`{"input":{"customer":"acme","prompt":"x","max_tokens":-1}}`); err == nil || !strings.Contains(err.Error(), "invalid_request: tiers[1].cost -1") {
		b.Errorf("%s, %v", out, err)
	}
}
