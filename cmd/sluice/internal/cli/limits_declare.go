package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"

	"github.com/sluice-dev/sluice/shared/dynamolimit"
	"github.com/sluice-dev/sluice/shared/limit"
)

const declareLong = `Register the policies of a JSON file, or of standard input for "-". A deployment
registers those of its Go handlers by itself; this is for policies that handlers in other
languages use, and for trying things out.

The file holds one policy or an array of policies:

  {"name": "vendor", "kind": "bucket", "refill": 10, "interval_ms": 1000, "burst": 20}
  {"name": "daily", "kind": "window", "max": 1000, "window": {"kind": "daily", "zone": "Europe/Paris"}}
  {"name": "credit", "kind": "manual", "max": 500, "reset": {"cron": "0 0 1 * *", "zone": "UTC"}}

Further members: group (policies of one group are charged in one write), over_max ("reject"
or "clamp": what happens to a cost above the maximum), and windows of the kinds every and
first_use (interval_ms), weekly, monthly, and cron (cron, zone).

Of two declarations that with the higher release is in force.`

func (a *app) newLimitsDeclareCommand(f *limitsFlags) *cobra.Command {
	release := unitsFlag{}
	cmd := &cobra.Command{
		Use:   "declare FILE|- [flags]",
		Short: "Register the policies of a JSON file",
		Long:  declareLong,
		Example: `  sluice limits declare policies.json
  echo '{"name": "vendor", "kind": "bucket", "refill": 1, "interval_ms": 1000}' | sluice limits declare -`,
		Args: wants("the file", false),
		RunE: func(cmd *cobra.Command, args []string) error {
			n := time.Now().Unix()
			if release.value != nil {
				n = *release.value
			}
			return a.declare(cmd.Context(), f, args[0], n)
		},
	}
	cmd.Flags().Var(&release, "release", "the `number` of the release that declares them (default the time, in Unix seconds)")
	return cmd
}

func (a *app) declare(ctx context.Context, f *limitsFlags, name string, release int64) error {
	policies, err := a.readPolicies(ctx, name)
	if err != nil {
		return err
	}
	var before []limit.Entry
	err = a.withLimiter(ctx, f, func(l *dynamolimit.Limiter) (err error) {
		if before, err = l.Policies(ctx); err != nil {
			return err
		}
		return l.Declare(ctx, release, policies...)
	})
	switch {
	case errors.Is(err, limit.ErrReleaseConflict):
		return errors.New(unlined(err.Error()))
	case err != nil:
		return err
	}
	at := time.Now().Add(limit.CacheFor)
	results := make([]declared, len(policies))
	for i, p := range policies {
		results[i] = declared{Policy: p.Name, Result: became(before, p, release), Release: release, InForceAt: at.UTC()}
	}
	if a.json {
		return a.printValue(results)
	}
	changed := false
	for _, r := range results {
		a.out.printf("%s  %s\n", inline(r.Policy), r.Result)
		changed = changed || r.Result == limit.Created || r.Result == limit.Replaced
	}
	if changed {
		a.out.printf("in force everywhere by %s\n", byWhen(at))
	}
	return nil
}

// declared is what became of a declaration.
type declared struct {
	Policy    string             `json:"policy"`
	Result    limit.Registration `json:"result"`
	Release   int64              `json:"release"`
	InForceAt time.Time          `json:"in_force_at"`
}

// became says what became of a declaration that was taken.
func became(before []limit.Entry, p limit.Policy, release int64) limit.Registration {
	i := slices.IndexFunc(before, func(e limit.Entry) bool { return e.Policy.Name == p.Name })
	switch {
	case i < 0:
		return limit.Created
	case before[i].Release > release:
		return limit.Older
	case before[i].Policy.Equal(p):
		return limit.Unchanged
	default:
		return limit.Replaced
	}
}

// readPolicies reads a file of policies.
func (a *app) readPolicies(ctx context.Context, name string) ([]limit.Policy, error) {
	var data []byte
	var err error
	if name == stdinName {
		name = "standard input"
		data, err = a.readStdin(ctx, "policies in JSON")
	} else {
		data, err = a.readFile(name)
	}
	if err != nil {
		return nil, err
	}
	data = bytes.TrimPrefix(data, []byte("\uFEFF"))
	if err := checkJSON(data); err != nil {
		return nil, usagef("%s: %v", name, err)
	}
	documents := []jsontext.Value{data}
	if jsontext.Value(data).Kind() == '[' {
		documents = nil
		if err := json.Unmarshal(data, &documents); err != nil {
			return nil, usagef("%s: %v", name, err)
		}
	}
	if len(documents) == 0 {
		return nil, usagef("%s: the array is empty, there is no policy to declare", name)
	}
	policies := make([]limit.Policy, len(documents))
	var bad []string
	for i, doc := range documents {
		err := policies[i].UnmarshalJSON(doc)
		if err == nil {
			err = policies[i].Validate()
		}
		if err != nil {
			bad = append(bad, fmt.Sprintf("%s: policy %d: %s", name, i+1, strings.ReplaceAll(err.Error(), "limit: ", "")))
		}
	}
	if len(bad) > 0 {
		return nil, usagef("%s", strings.Join(bad, "; "))
	}
	return policies, nil
}

func (a *app) readFile(name string) ([]byte, error) {
	file, _, err := a.open(name, "the policies")
	if err != nil {
		return nil, err
	}
	defer file.Close()
	data, err := io.ReadAll(file)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	return data, nil
}
