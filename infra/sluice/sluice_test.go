package sluice_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/assertions"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsiam"
	"github.com/aws/jsii-runtime-go"

	"github.com/sluice-dev/sluice/infra/sluice"
)

// Synthesis is the slow part (seconds of Node), so that the tests share three templates: the stock stack,
// a stack that sets every prop, and one with several claim functions. They only read them.
var (
	stock  = sync.OnceValue(func() resources { return synth(nil, sluice.Props{}) })
	custom = sync.OnceValue(func() resources {
		return synth(map[string]any{"stack": "Custom", "handlers": "reporter, mailer", "hosts": "api.example.com", "ephemeral": "true", "alarmTopic": "arn:aws:sns:us-east-1:1:ops", "hourlyCost": "2.5"}, sluice.Props{
			Name:                "orders",
			Release:             1_800_000_000,
			BucketName:          "orders-of-example-com",
			Retention:           7 * 24 * time.Hour,
			QuarantineRetention: 3 * 24 * time.Hour,
			Claim: sluice.FunctionProps{
				MemoryMiB:           512,
				Timeout:             time.Minute,
				ReservedConcurrency: 20,
				Environment:         map[string]string{"SLUICE_REST": "0", "VENDOR": "example.com"},
			},
			Limiter: sluice.FunctionProps{MemoryMiB: 1024, Timeout: 5 * time.Second, ReservedConcurrency: 30, Tracing: true},
			Reset:   sluice.FunctionProps{MemoryMiB: 128},
			Sweep:   sluice.FunctionProps{Timeout: 2 * time.Minute, Environment: map[string]string{"SLUICE_SWEEP_MAX_TASKS": "500"}},
		})
	})
	assets string

	// jsii talks to one Node process and is not made for several goroutines.
	synthesis sync.Mutex
)

func TestMain(m *testing.M) {
	os.Exit(func() int {
		defer jsii.Close()
		dir, err := os.MkdirTemp("", "sluice-infra-")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer os.RemoveAll(dir)
		assets = dir
		for _, name := range []string{"claim", "limiter", "reset", "sweep"} {
			if err := fakeFunction(name); err != nil {
				fmt.Fprintln(os.Stderr, err)
				return 1
			}
		}

		return m.Run()
	}())
}

// fakeFunction stands in for a built binary: the template does not depend on what is in it.
func fakeFunction(name string) error {
	dir := filepath.Join(assets, name)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}

	return os.WriteFile(filepath.Join(dir, "bootstrap"), []byte("#!/bin/sh\n"), 0o755)
}

// resource is one entry of a template's Resources.
type resource struct {
	id             string
	Type           string
	Properties     map[string]any
	DependsOn      []string
	DeletionPolicy string
}

type resources []resource

// synth deploys, on paper, the stock stack with a producer that may submit and a handler that may ask the
// limiter.
func synth(context map[string]any, props sluice.Props) resources {
	return synthIn(context, func(awscdk.App) sluice.Props { return props })
}

// synthIn does the same with props that refer to other stacks of the app.
func synthIn(context map[string]any, with func(awscdk.App) sluice.Props) resources {
	synthesis.Lock()
	defer synthesis.Unlock()
	app := awscdk.NewApp(&awscdk.AppProps{Context: &context, AnalyticsReporting: jsii.Bool(false)})
	props := with(app)
	props.Assets = assets
	stack, queue := sluice.NewStack(app, props)
	role := func(id string) awsiam.Role {
		return awsiam.NewRole(stack, &id, &awsiam.RoleProps{
			AssumedBy: awsiam.NewServicePrincipal(jsii.String("ec2.amazonaws.com"), nil),
		})
	}
	queue.GrantSubmit(role("Producer"))
	queue.GrantLimiter(role("Handler"))

	var template struct{ Resources map[string]resource }
	text, err := json.Marshal(assertions.Template_FromStack(stack, nil).ToJSON())
	if err == nil {
		err = json.Unmarshal(text, &template)
	}
	if err != nil {
		panic(err)
	}
	var all resources
	for id, r := range template.Resources {
		r.id = id
		all = append(all, r)
	}
	slices.SortFunc(all, func(a, b resource) int { return strings.Compare(a.id, b.id) })

	return all
}

// ofType returns the resources of a type.
func (rs resources) ofType(name string) resources {
	return slices.DeleteFunc(slices.Clone(rs), func(r resource) bool { return r.Type != name })
}

// only returns the one resource of a type whose logical id holds a part.
func (rs resources) only(t *testing.T, name, part string) resource {
	t.Helper()
	found := slices.DeleteFunc(rs.ofType(name), func(r resource) bool { return !strings.Contains(r.id, part) })
	if len(found) != 1 {
		t.Fatalf("want one %s called %s, got %d", name, part, len(found))
	}

	return found[0]
}

// named returns the one resource of a type whose logical id is this, but for the hash that CDK appends.
func (rs resources) named(t *testing.T, kind, id string) resource {
	t.Helper()
	for _, r := range rs.ofType(kind) {
		if shortID(r.id) == id || shortID(r.id+"12345678") == id {
			return r
		}
	}
	t.Fatalf("no %s called %s", kind, id)

	return resource{}
}

// at follows a path of names and indexes into the properties.
func (r resource) at(t *testing.T, path ...any) any {
	t.Helper()
	var value any = r.Properties
	for _, step := range path {
		switch step := step.(type) {
		case string:
			object, ok := value.(map[string]any)
			if !ok {
				t.Fatalf("%s: no %v in %v", r.id, path, value)
			}
			value = object[step]
		case int:
			list, ok := value.([]any)
			if !ok || step >= len(list) {
				t.Fatalf("%s: no %v in %v", r.id, path, value)
			}
			value = list[step]
		}
	}

	return value
}

// text writes a value of a template the way a person would: references by the name of what they refer to.
func text(value any) string {
	switch value := value.(type) {
	case string:
		return value
	case []any:
		parts := make([]string, 0, len(value))
		for _, part := range value {
			parts = append(parts, text(part))
		}
		slices.Sort(parts)

		return strings.Join(parts, " ")
	case map[string]any:
		return reference(value)
	case float64:
		return strconv.FormatFloat(value, 'f', -1, 64)
	default:
		return fmt.Sprint(value)
	}
}

func reference(value map[string]any) string {
	if name, ok := value["Ref"].(string); ok {
		return "{" + strings.TrimPrefix(name, "AWS::") + "}"
	}
	if path, ok := value["Fn::GetAtt"].([]any); ok {
		return "{" + shortID(text(path[0])) + "}"
	}
	if join, ok := value["Fn::Join"].([]any); ok {
		var b strings.Builder
		parts, _ := join[1].([]any)
		for i, part := range parts {
			if i > 0 {
				b.WriteString(text(join[0]))
			}
			b.WriteString(text(part))
		}

		return b.String()
	}
	line, err := json.Marshal(value)
	if err != nil {
		return err.Error()
	}

	return string(line)
}

// plain writes the references that are left in a line of JSON the way text does.
func plain(line string) string {
	start := strings.Index(line, `{"Fn::Join":`)
	if start < 0 {
		return line
	}
	var join map[string]any
	decoder := json.NewDecoder(strings.NewReader(line[start:]))
	if err := decoder.Decode(&join); err != nil {
		return line
	}

	return line[:start] + strconv.Quote(text(join)) + line[start+int(decoder.InputOffset()):]
}

// shortID drops the hash that CDK appends to logical ids, and the construct they all stand in.
func shortID(id string) string {
	const hash = 8
	if len(id) > hash {
		id = id[:len(id)-hash]
	}

	return strings.TrimPrefix(id, "Queue")
}
