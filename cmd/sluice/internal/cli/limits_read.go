package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluice-dev/sluice/shared/dynamolimit"
	"github.com/sluice-dev/sluice/shared/limit"
)

func (a *app) newLimitsListCommand(f *limitsFlags) *cobra.Command {
	return &cobra.Command{
		Use:     "list",
		Aliases: []string{"ls"},
		Short:   "List the policies that are registered",
		Long: `List the policies that are registered, with the settings in force, and how many throttled
tasks are parked on them. Policies of a group have the same number, since their tasks
stand in one line.

With --json an array of the registry's entries is printed, [] when there are none, each
with the member parked: tasks, keys, and at_least when there are too many keys to look at
them all.`,
		Example: `  sluice limits list
  sluice limits list --json | jq -r '.[] | "\(.policy.name) \(.parked.tasks)"'`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.limitsList(cmd.Context(), f) },
	}
}

func (a *app) limitsList(ctx context.Context, f *limitsFlags) error {
	var entries []limit.Entry
	var parked *parkedKeys
	err := a.withLimiter(ctx, f, func(l *dynamolimit.Limiter) (err error) {
		if entries, err = l.Policies(ctx); err != nil {
			return err
		}
		parked, err = readParked(ctx, l)
		return err
	})
	switch {
	case err != nil:
		return err
	case a.json:
		list := make([]listedEntry, len(entries))
		for i, e := range entries {
			list[i] = listedEntry{e, parked.count(e.Policy)}
		}
		return a.printValue(list)
	case len(entries) == 0:
		a.note("no policies are registered: a deployment registers those of its handlers, `sluice limits declare` those of a file")
		return nil
	}
	now := time.Now()
	t := newTable(a.out, "POLICY", "KIND", "MAX", "REFILLS", "GROUP", "PARKED", "NOTE")
	t.paint = func(row []string, _ int, padded string) string {
		if row[0] == "POLICY" {
			return a.out.dim(padded)
		}
		return padded
	}
	for _, e := range entries {
		s := inForce(e, now)
		note := ""
		if o := override(e, now); o != nil {
			note = "override " + overridden(o)
		}
		t.add(e.Policy.Name, string(s.Kind), fmt.Sprint(s.Max), comes(s, e.Policy), cmp.Or(e.Policy.Group, e.Policy.Name),
			parked.count(e.Policy).String(), note)
	}
	t.flush()
	return nil
}

func (a *app) newLimitsShowCommand(f *limitsFlags) *cobra.Command {
	return &cobra.Command{
		Use:   "show POLICY [KEY]",
		Short: "Show a policy and what a key has left",
		Long: `Show a policy: what is declared, what is in force, overrides and the last changes; and
what a key has left, when it is full or reset next, whether it is held, and how many
throttled tasks are parked on it. Without a key, the keys with the most of them are
named.

With --json one document: policy, the registry's entry, reading, and parked; without a
key also parked_on, the keys with their number of tasks, the most first.`,
		Example: `  sluice limits show vendor acme
  sluice limits show vendor acme --json | jq .reading.available`,
		Args: policyAndKey,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.limitsShow(cmd.Context(), f, tierArg(args), len(args) == 1)
		},
	}
}

func (a *app) limitsShow(ctx context.Context, f *limitsFlags, t limit.Tier, allKeys bool) error {
	var reading limit.Reading
	var entries []limit.Entry
	var onKey int64
	parked := &parkedKeys{}
	err := a.withLimiter(ctx, f, func(l *dynamolimit.Limiter) (err error) {
		if reading, onKey, err = l.InspectParked(ctx, t); err != nil {
			return err
		}
		if allKeys {
			if parked, err = readParked(ctx, l); err != nil {
				return err
			}
		}
		entries, err = l.Policies(ctx)
		return err
	})
	i := slices.IndexFunc(entries, func(e limit.Entry) bool { return e.Policy.Name == t.Policy.Name })
	switch {
	case err != nil && i < 0:
		return err
	case i < 0:
		return errors.New("the policy has just gone from the registry")
	}
	policy := entries[i].Policy
	if a.json {
		return a.printValue(struct {
			Policy   limit.Entry   `json:"policy"`
			Reading  limit.Reading `json:"reading"`
			Parked   int64         `json:"parked"`
			ParkedOn []parkedKey   `json:"parked_on,omitempty"`
		}{entries[i], reading, onKey, parked.on(policy)})
	}
	now := time.Now()
	a.out.printf("%s  %s\n", a.out.bold(inline(t.Policy.Name)), reading.Kind)
	rows := describePolicy(entries[i], now)
	rows.add("parked", parked.words(policy))
	a.printRows(rows)
	a.out.printf("%s  %s%s\n", a.out.bold(inline(keyName(t.Key))), a.bar(reading), fill(reading))
	rows = describeReading(reading, now)
	rows.add("parked", parkedOnKey(onKey, policy))
	a.printRows(rows)
	return nil
}

func keyName(key string) string {
	if key == "" {
		return "no key"
	}
	return fmt.Sprintf("key %q", key)
}

func describePolicy(e limit.Entry, now time.Time) *details {
	d := &details{}
	declared := limit.Terms{
		Kind: e.Policy.Kind(), Max: e.Policy.Capacity(), Refill: e.Policy.Rate.Tokens, Interval: e.Policy.Rate.Interval, Window: e.Policy.Window,
	}
	d.add("declared", fmt.Sprintf("%s, by release %d", terms(declared, e.Policy), e.Release))
	d.add("in force", terms(inForce(e, now), e.Policy))
	if o := override(e, now); o != nil {
		d.add("override", overridden(o))
	}
	d.add("over max", map[limit.OverMax]string{limit.Clamp: "a cost above the maximum is charged the maximum"}[e.Policy.OverMax])
	d.add("group", e.Policy.Group)
	var changes []string
	for _, c := range slices.Backward(e.Changes) {
		const shown = 5
		if len(changes) < shown {
			changes = append(changes, strings.TrimRight(fmt.Sprintf("%s  %s  %s", absolute(c.At), c.What, c.By), " "))
		}
	}
	d.add("changes", strings.Join(changes, "\n"))
	return d
}

func describeReading(r limit.Reading, now time.Time) *details {
	d := &details{}
	if r.FullAt.After(now) && r.Used > 0 {
		d.add("full", both(now, r.FullAt))
	}
	if !r.ResetsAt.IsZero() {
		d.add("next reset", both(now, r.ResetsAt))
	}
	if !r.HeldUntil.IsZero() {
		d.add("held until", both(now, r.HeldUntil))
	}
	return d
}

// barWidth is that of a bar, in characters.
const barWidth = 20

// bar shows how full a key is, for people only.
func (a *app) bar(r limit.Reading) string {
	if !a.out.terminal || r.Limit == 0 {
		return ""
	}
	full := int(min(float64(r.Available)/float64(r.Limit), 1) * barWidth)
	color := "32"
	switch {
	case r.Available == 0 || !r.HeldUntil.IsZero():
		color = "31"
	case full <= barWidth/4:
		color = "33"
	}
	return a.out.style(color, strings.Repeat("█", full)) + a.out.dim(strings.Repeat("░", barWidth-full)) + "  "
}
