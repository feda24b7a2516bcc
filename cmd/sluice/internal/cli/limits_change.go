package cli

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluice-dev/sluice/shared/dynamolimit"
	"github.com/sluice-dev/sluice/shared/limit"
)

func (a *app) newLimitsSetCommand(f *limitsFlags) *cobra.Command {
	most, refill := unitsFlag{}, unitsFlag{least: 1}
	interval, expiresIn := durationFlag{positive: true}, durationFlag{positive: true}
	cmd := &cobra.Command{
		Use:   "set POLICY [--max N] [--refill N] [--interval DURATION] [flags]",
		Short: "Override settings of a policy",
		Long: `Override settings of a policy. The override takes the place of an earlier one, survives
deployments, and ends when it is cleared or expires. --max 0 pauses the policy: nothing
is admitted. What keys have used stays used.`,
		Example: `  sluice limits set vendor --max 5 --expires-in 2h
  sluice limits set vendor --refill 1 --interval 10s
  sluice limits set vendor --max 0`,
		Args: policyArg,
		RunE: func(cmd *cobra.Command, args []string) error {
			o := limit.Override{Max: most.value, Refill: refill.value, Interval: interval.value, By: f.who()}
			if o.Max == nil && o.Refill == nil && o.Interval == nil {
				return usagef("set what? give at least one of --max, --refill and --interval")
			}
			if expiresIn.value != nil {
				o.Expires = time.Now().Add(*expiresIn.value)
			}
			return a.changePolicy(cmd.Context(), f, args[0], func(ctx context.Context, l *dynamolimit.Limiter) (time.Time, error) {
				return l.SetOverride(ctx, args[0], o)
			})
		},
	}
	flags := cmd.Flags()
	flags.Var(&most, "max", "the most that a key can have, burst included; 0 pauses")
	flags.Var(&refill, "refill", "of a token bucket: tokens per interval")
	flags.Var(&interval, "interval", "of a token bucket, or of a window with a length")
	flags.Var(&expiresIn, "expires-in", "end the override after this `duration` (default never)")
	f.addBy(cmd)
	return cmd
}

func (a *app) newLimitsClearCommand(f *limitsFlags) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "clear POLICY",
		Short:   "End the override of a policy",
		Long:    "End the override of a policy: what is declared is in force again. Without one nothing happens.",
		Example: "  sluice limits clear vendor",
		Args:    policyArg,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.changePolicy(cmd.Context(), f, args[0], func(ctx context.Context, l *dynamolimit.Limiter) (time.Time, error) {
				return l.ClearOverride(ctx, args[0], f.who())
			})
		},
	}
	f.addBy(cmd)
	return cmd
}

func (a *app) newLimitsResetCommand(f *limitsFlags) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "reset POLICY",
		Short:   "Make all keys of a policy fresh",
		Long:    "Make all keys of a policy fresh: full, without debts. It is one write, however many keys there are.",
		Example: "  sluice limits reset daily",
		Args:    policyArg,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.changePolicy(cmd.Context(), f, args[0], func(ctx context.Context, l *dynamolimit.Limiter) (time.Time, error) {
				return l.Reset(ctx, args[0], f.who())
			})
		},
	}
	f.addBy(cmd)
	return cmd
}

// changePolicy makes a change to a policy and says by when it is in force.
func (a *app) changePolicy(ctx context.Context, f *limitsFlags, policy string, change func(context.Context, *dynamolimit.Limiter) (time.Time, error)) error {
	var at time.Time
	err := a.withLimiter(ctx, f, func(l *dynamolimit.Limiter) (err error) {
		at, err = change(ctx, l)
		return err
	})
	if err != nil {
		return err
	}
	if a.json {
		return a.printValue(struct {
			Policy    string    `json:"policy"`
			InForceAt time.Time `json:"in_force_at"`
		}{policy, at.UTC()})
	}
	a.out.printf("%s  in force everywhere by %s\n", inline(policy), byWhen(at))
	return nil
}

// byWhen is a time rounded up to the second.
func byWhen(t time.Time) string { return absolute(t.Add(time.Second - 1)) }

func (a *app) newLimitsGrantCommand(f *limitsFlags) *cobra.Command {
	return &cobra.Command{
		Use:   "grant POLICY KEY N",
		Short: "Give a key more, up to full",
		Long:  "Give a key N more, up to full. The empty key, '', is that of a policy that is not kept per key.",
		Example: `  sluice limits grant vendor acme 10
  sluice limits grant daily '' 500`,
		Args: amountArgs(3, 3),
		RunE: func(cmd *cobra.Command, args []string) error {
			n, err := parseUnits(args[2], 1)
			if err != nil {
				return usagef("N %q %v", args[2], err)
			}
			return a.grant(cmd.Context(), f, tierArg(args), n)
		},
	}
}

func (a *app) newLimitsDrainCommand(f *limitsFlags) *cobra.Command {
	var all bool
	cmd := &cobra.Command{
		Use:   "drain POLICY KEY N|--all",
		Short: "Take from a key, down to empty",
		Long:  "Take N from a key, down to empty, or all it has. The empty key, '', is that of a policy that is not kept per key.",
		Example: `  sluice limits drain vendor acme 3
  sluice limits drain daily '' --all`,
		Args: amountArgs(2, 3),
		RunE: func(cmd *cobra.Command, args []string) error {
			n := int64(limit.MaxUnits)
			switch {
			case all == (len(args) == 3):
				return usagef("how much? give either N or --all")
			case !all:
				var err error
				if n, err = parseUnits(args[2], 1); err != nil {
					return usagef("N %q %v", args[2], err)
				}
			}
			return a.grant(cmd.Context(), f, tierArg(args), -n)
		},
	}
	cmd.Flags().BoolVar(&all, "all", false, "all it has")
	return cmd
}

// amountArgs takes a policy, a key and a number.
func amountArgs(least, most int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) < least:
			return usagef("a policy, a key and a number are wanted (the empty key is ''), not %d arguments", len(args))
		case len(args) > most:
			return usagef("a policy, a key and a number are wanted, then came %q", args[most])
		}
		return policyAndKey(cmd, args[:2])
	}
}

func (a *app) grant(ctx context.Context, f *limitsFlags, t limit.Tier, n int64) error {
	return a.changeKey(ctx, f, t, func(l *dynamolimit.Limiter) error { return l.Grant(ctx, t, n) })
}

func (a *app) newLimitsHoldCommand(f *limitsFlags) *cobra.Command {
	period := durationFlag{positive: true}
	var until timeFlag
	cmd := &cobra.Command{
		Use:   "hold POLICY [KEY] --for DURATION|--until TIME",
		Short: "Let nothing pass on a key for a while",
		Long: `Let nothing pass on a key before a time, whatever it has: what an answer 429 with
Retry-After asks for. A hold can only be extended; release ends it. What the key has is
left alone.`,
		Example: `  sluice limits hold vendor acme --for 10m
  sluice limits hold vendor acme --until 2027-01-01T09:30:00Z`,
		Args: policyAndKey,
		RunE: func(cmd *cobra.Command, args []string) error {
			var end time.Time
			switch {
			case (period.value == nil) == (until.value == nil):
				return usagef("until when? give either --for or --until")
			case period.value != nil:
				end = time.Now().Add(*period.value)
			default:
				end = *until.value
			}
			if !end.After(time.Now()) {
				return usagef("the hold would end at %s, which has passed; to end one use sluice limits release", end.UTC().Format(time.RFC3339))
			}
			t := tierArg(args)
			return a.changeKey(cmd.Context(), f, t, func(l *dynamolimit.Limiter) error { return l.Hold(cmd.Context(), t, end) })
		},
	}
	cmd.Flags().Var(&period, "for", "for this `duration`, such as 10m")
	cmd.Flags().Var(&until, "until", "until this `time`")
	return cmd
}

func (a *app) newLimitsReleaseCommand(f *limitsFlags) *cobra.Command {
	return &cobra.Command{
		Use:     "release POLICY [KEY]",
		Short:   "End the hold of a key",
		Long:    "End the hold of a key. Without one nothing happens.",
		Example: "  sluice limits release vendor acme",
		Args:    policyAndKey,
		RunE: func(cmd *cobra.Command, args []string) error {
			t := tierArg(args)
			return a.changeKey(cmd.Context(), f, t, func(l *dynamolimit.Limiter) error { return l.Release(cmd.Context(), t) })
		},
	}
}

// changeKey makes a change to a key and shows what it has then.
func (a *app) changeKey(ctx context.Context, f *limitsFlags, t limit.Tier, change func(*dynamolimit.Limiter) error) error {
	var r limit.Reading
	err := a.withLimiter(ctx, f, func(l *dynamolimit.Limiter) (err error) {
		if err := change(l); err != nil {
			return err
		}
		r, err = l.Inspect(ctx, t)
		return err
	})
	if err != nil {
		return err
	}
	return a.printReading(r)
}
