package cli

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluice-dev/sluice/shared/dynamolimit"
	"github.com/sluice-dev/sluice/shared/lambdalimit"
	"github.com/sluice-dev/sluice/shared/limit"
)

const tryLong = `Ask the limiter once: charge the cost if it is admitted, for scripts that call what is
limited. Several tiers are charged together or not at all: each --also-policy starts
another one, --also-key and --also-cost say more about it.

Exit codes: 0 admitted, 1 denied, 2 called wrongly, 3 the limiter could not be asked. What
stands in the way and when to try again is printed; with --quiet only the seconds to
wait, or "never". With --json the answer of the limiter function is printed.`

const tryExample = `  sluice limits try vendor acme && curl https://vendor.example/api
  sluice limits try tpm acme --cost 1500 --also-policy daily

  # wait for one's turn; it ends where waiting does not help
  until wait=$(sluice limits try vendor acme --quiet); do sleep "$wait" || break; done`

// exitUnasked is the exit code of try when there is no answer.
const exitUnasked = 3

// codedError is an error with an exit code of its own.
type codedError struct {
	error

	code int
}

func (e *codedError) Unwrap() error { return e.error }

func (a *app) newLimitsTryCommand(f *limitsFlags) *cobra.Command {
	var cost unitsFlag
	var also alsoFlag
	var quiet bool
	cmd := &cobra.Command{
		Use:     "try POLICY [KEY] [--cost N] [flags]",
		Short:   "Ask for one admission, for scripts",
		Long:    tryLong,
		Example: tryExample,
		Args:    policyAndKey,
		RunE: func(cmd *cobra.Command, args []string) error {
			first := tierArg(args)
			if cost.value != nil {
				first = first.Cost(*cost.value)
			}
			err := a.limitsTry(cmd.Context(), f, quiet, append([]limit.Tier{first}, also.tiers...))
			var usage *usageError
			if err == nil || errors.Is(err, errReported) || errors.As(err, &usage) {
				return err
			}
			return &codedError{err, exitUnasked}
		},
	}
	flags := cmd.Flags()
	flags.Var(&cost, "cost", "what it costs (default 1)")
	flags.Var(also.policy(), "also-policy", "another tier, of this `policy`; can be repeated")
	flags.Var(also.key(), "also-key", "the `key` of the --also-policy before it")
	flags.Var(also.cost(), "also-cost", "the cost of the --also-policy before it (default 1)")
	flags.BoolVarP(&quiet, "quiet", "q", false, "print only the seconds to wait")
	return cmd
}

func (a *app) limitsTry(ctx context.Context, f *limitsFlags, quiet bool, tiers []limit.Tier) error {
	var r *limit.Reservation
	err := a.withLimiter(ctx, f, func(l *dynamolimit.Limiter) (err error) {
		r, err = l.Acquire(ctx, tiers...)
		return err
	})
	var denied *limit.Denied
	switch {
	case errors.As(err, &denied):
		if err := a.printDenied(denied, quiet); err != nil {
			return err
		}
		return errReported
	case err != nil:
		return err
	case a.json:
		return a.printValue(lambdalimit.Admitted(r))
	case quiet:
		return nil
	}
	a.out.printf("admitted\n")
	for _, c := range r.Receipt().Charges {
		a.out.printf("  %s  charged %d\n", inline(tier(c.Policy, c.Key)), c.Units)
	}
	return nil
}

func (a *app) printDenied(d *limit.Denied, quiet bool) error {
	switch {
	case a.json:
		return a.printValue(lambdalimit.Denied(d))
	case quiet && d.Never:
		a.out.printf("never\n")
		return nil
	case quiet:
		a.out.printf("%s\n", seconds(d.RetryAfter))
		return nil
	case d.Never:
		a.out.printf("denied, this can never be admitted\n")
	default:
		a.out.printf("denied, retry after %s seconds\n", seconds(d.RetryAfter))
	}
	for _, b := range d.Blocked {
		a.out.printf("  %s  cost %d, available %d, %s\n", inline(tier(b.Policy, b.Key)), b.Cost, b.Available, waitsFor(b))
	}
	return nil
}

func waitsFor(b limit.Blocked) string {
	switch {
	case b.Verdict == limit.Never:
		return "more than it can ever have"
	case b.Verdict == limit.UntilChanged:
		return "waits for a change, a grant or a reset"
	case b.Held:
		return "held for " + span(b.Wait.Milliseconds())
	default:
		return "in " + span(b.Wait.Milliseconds())
	}
}

// seconds writes whole milliseconds as seconds: 1.2.
func seconds(d time.Duration) string {
	return strconv.FormatFloat(d.Seconds(), 'f', -1, 64)
}

// alsoFlag collects further tiers. Keys are anybody's text, so nothing is split.
type alsoFlag struct{ tiers []limit.Tier }

// alsoPart is one of the three flags.
type alsoPart struct {
	kind string
	set  func(value string) error
}

func (p *alsoPart) Set(s string) error { return p.set(s) }
func (p *alsoPart) String() string     { return "" }
func (p *alsoPart) Type() string       { return p.kind }

func (f *alsoFlag) policy() *alsoPart {
	return &alsoPart{"policy", func(value string) error {
		if value == "" {
			return errors.New("names no policy")
		}
		f.tiers = append(f.tiers, limit.Policy{Name: value}.Global())
		return nil
	}}
}

func (f *alsoFlag) key() *alsoPart {
	return &alsoPart{"key", func(value string) error {
		last, err := f.last()
		if err != nil {
			return err
		}
		last.Key = value
		if err := limit.CheckKey(value); err != nil {
			return fmt.Errorf("is refused: %w", err)
		}
		return nil
	}}
}

func (f *alsoFlag) cost() *alsoPart {
	return &alsoPart{"n", func(value string) error {
		last, err := f.last()
		if err != nil {
			return err
		}
		last.Units, err = parseUnits(value, 0)
		return err
	}}
}

func (f *alsoFlag) last() (*limit.Tier, error) {
	if len(f.tiers) == 0 {
		return nil, errors.New("belongs to the --also-policy before it, and there is none")
	}
	return &f.tiers[len(f.tiers)-1], nil
}
