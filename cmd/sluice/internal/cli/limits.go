package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/user"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/go-json-experiment/json"
	"github.com/spf13/cobra"

	"github.com/sluice-dev/sluice/shared/awserr"
	"github.com/sluice-dev/sluice/shared/dynamolimit"
	"github.com/sluice-dev/sluice/shared/limit"
)

const limitsLong = `Look at the limiter's policies and keys, and change them.

A policy says how much is allowed; what is left is kept per key, such as a customer. A
policy that is not kept per key has the empty key, which is what KEY defaults to where
it may be left out.

Which table: --table or SLUICE_TABLE, or --stack or SLUICE_STACK for the table of a
deployed stack.

What changes a policy takes up to 5 seconds to be in force everywhere, and the command
says by when; what changes a key is in force at once.`

// limitsFlags are those that all commands of limits have.
type limitsFlags struct {
	table textFlag
	by    textFlag
}

func (a *app) newLimitsCommand() *cobra.Command {
	f := &limitsFlags{}
	cmd := &cobra.Command{
		Use:   "limits COMMAND",
		Short: "Look at rate limits, change and try them",
		Long:  limitsLong,
		Example: `  sluice limits list
  sluice limits show vendor acme
  sluice limits hold vendor acme --for 10m
  sluice limits set vendor --max 5 --expires-in 2h`,
		Args: noSuchCommand,
		RunE: showHelp,
	}
	cmd.PersistentFlags().Var(&f.table, "table", "the limiter's `table` (default $"+dynamolimit.TableVariable+")")
	add := func(group, title string, commands ...*cobra.Command) {
		cmd.AddGroup(&cobra.Group{ID: group, Title: title})
		for _, c := range commands {
			c.GroupID = group
			c.Flags().SortFlags = false
			c.DisableFlagsInUseLine = true
			cmd.AddCommand(c)
		}
	}
	add("read", "Look at them:", a.newLimitsListCommand(f), a.newLimitsShowCommand(f), a.newLimitsTryCommand(f))
	add("policy", "Change a policy:", a.newLimitsSetCommand(f), a.newLimitsClearCommand(f), a.newLimitsResetCommand(f), a.newLimitsDeclareCommand(f))
	add("key", "Change a key:", a.newLimitsGrantCommand(f), a.newLimitsDrainCommand(f), a.newLimitsHoldCommand(f), a.newLimitsReleaseCommand(f))
	return cmd
}

// addBy adds the flag that says who changes a policy.
func (f *limitsFlags) addBy(cmd *cobra.Command) {
	cmd.Flags().Var(&f.by, "by", "who you are, for the log of changes (default your user name)")
}

// who is that flag, or the user's name.
func (f *limitsFlags) who() string {
	if f.by.value != "" {
		return f.by.value
	}
	if u, err := user.Current(); err == nil {
		return u.Username
	}
	return os.Getenv("USER")
}

// tableOutput is the output of the deployed stack that names the table.
const tableOutput = "TableName"

// limiter opens the limiter of the table.
func (a *app) limiter(ctx context.Context, f *limitsFlags) (*dynamolimit.Limiter, error) {
	table, stack := f.table.value, a.target.stack
	switch {
	case table != "" && stack != "":
		return nil, usagef("--table and --stack are both given: each names the table, give one of them")
	case table == "" && stack == "":
		table, stack = os.Getenv(dynamolimit.TableVariable), os.Getenv(envStack)
	}
	if table == "" && stack == "" {
		return nil, usagef("which table? give --table or --stack, or set %s or %s", dynamolimit.TableVariable, envStack)
	}
	config, err := a.target.config(ctx)
	if err != nil {
		return nil, err
	}
	if table == "" {
		if table, err = tableOf(ctx, cloudformation.NewFromConfig(config), stack); err != nil {
			return nil, err
		}
	}
	return dynamolimit.New(dynamodb.NewFromConfig(config), table,
		dynamolimit.WithCacheFor(0), dynamolimit.WithLog(slog.New(slog.DiscardHandler))), nil
}

// withLimiter does something with the limiter of the table.
func (a *app) withLimiter(ctx context.Context, f *limitsFlags, do func(*dynamolimit.Limiter) error) error {
	l, err := a.limiter(ctx, f)
	if err != nil {
		return err
	}
	if err = do(l); awserr.IsNotFound(err) {
		return fmt.Errorf("the table %s does not exist here, check its name, the region and the account", l.Table())
	}
	return wrongUse(err)
}

// policyArg takes a policy's name alone.
func policyArg(cmd *cobra.Command, args []string) error {
	if err := wants("the policy's name", false)(cmd, args); err != nil {
		return err
	}
	return checkPolicyName(args[0])
}

// policyAndKey takes a policy's name and a key, which may be left out.
func policyAndKey(cmd *cobra.Command, args []string) error {
	if err := wants("the policy's name", true)(cmd, args); err != nil {
		return err
	}
	if len(args) > 2 {
		return usagef("a policy and a key are wanted, then came %q: put a key with spaces between single quotes", args[2])
	}
	if err := checkPolicyName(args[0]); err != nil {
		return err
	}
	return wrongUse(limit.CheckKey(keyArg(args)))
}

func checkPolicyName(name string) error {
	if name == "" {
		return usagef("the policy's name is empty: is a variable not set?")
	}
	return nil
}

func keyArg(args []string) string {
	if len(args) > 1 {
		return args[1]
	}
	return ""
}

func tierArg(args []string) limit.Tier {
	return limit.Policy{Name: args[0]}.Key(keyArg(args))
}

// wrongUse turns what the limiter refuses to do for what it was asked into a usage
// error.
func wrongUse(err error) error {
	var request *limit.InvalidRequestError
	var policy *limit.InvalidPolicyError
	if errors.As(err, &request) || errors.As(err, &policy) {
		return usagef("%s", unlined(strings.ReplaceAll(err.Error(), "limit: ", "")))
	}
	return err
}

// unlined puts the lines of a joined error on one.
func unlined(s string) string { return strings.ReplaceAll(s, "\n", "; ") }

// unitsFlag is a number of units, nil until it is given.
type unitsFlag struct {
	value *int64
	least int64
}

func (f *unitsFlag) Set(s string) error {
	n, err := parseUnits(s, f.least)
	f.value = &n
	return err
}

func (f *unitsFlag) String() string { return "" }
func (f *unitsFlag) Type() string   { return "n" }

func parseUnits(s string, least int64) (int64, error) {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n < least || n > limit.MaxUnits {
		return 0, fmt.Errorf("must be a whole number from %d to %d", least, int64(limit.MaxUnits))
	}
	return n, nil
}

// printValue writes a value as JSON.
func (a *app) printValue(v any) error {
	doc, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("write it as JSON: %w", err)
	}
	a.printJSON(doc)
	return nil
}

// printReading writes what a key has, on one line.
func (a *app) printReading(r limit.Reading) error {
	if a.json {
		return a.printValue(r)
	}
	a.out.printf("%s  %s\n", inline(tier(r.Policy, r.Key)), fill(r))
	if !r.HeldUntil.IsZero() {
		a.out.printf("held until %s\n", both(time.Now(), r.HeldUntil))
	}
	return nil
}

// fill words what a key has left.
func fill(r limit.Reading) string {
	if r.Limit == 0 {
		return fmt.Sprintf("paused, %d used", r.Used)
	}
	text := fmt.Sprintf("%d of %d available", r.Available, r.Limit)
	if r.Used > r.Limit {
		text += fmt.Sprintf(", %d in debt", r.Used-r.Limit)
	}
	return text
}

// terms words settings: how much, and how it comes back.
func terms(t limit.Terms, p limit.Policy) string {
	amount := fmt.Sprintf("at most %d", t.Max)
	if t.Max == 0 {
		amount = "paused"
	}
	return comes(t, p) + ", " + amount
}

// comes words how a policy refills.
func comes(t limit.Terms, p limit.Policy) string {
	switch t.Kind {
	case limit.Bucket:
		return limit.Per(t.Refill, t.Interval).String()
	case limit.FixedWindow:
		return t.Window.String()
	default:
		if cron, zone := resetCron(p); cron != "" {
			return fmt.Sprintf("reset at %q %s", cron, zone)
		}
		return "reset by hand"
	}
}

// resetCron returns when a manual policy is reset.
func resetCron(p limit.Policy) (cron, zone string) {
	var w struct {
		Reset struct {
			Cron string `json:"cron"`
			Zone string `json:"zone"`
		} `json:"reset"`
	}
	doc, err := json.Marshal(p)
	if err != nil || json.Unmarshal(doc, &w) != nil {
		return "", ""
	}
	return w.Reset.Cron, w.Reset.Zone
}

// inForce returns the settings of an entry that are in force.
func inForce(e limit.Entry, now time.Time) limit.Terms {
	m, err := limit.NewMeter(e)
	if err != nil {
		return e.Terms[len(e.Terms)-1]
	}
	return m.Terms(now)
}

// override returns the override of an entry if it is in force.
func override(e limit.Entry, now time.Time) *limit.Override {
	if o := e.Override; o != nil && (o.Expires.IsZero() || o.Expires.After(now)) {
		return o
	}
	return nil
}

// overridden words an override: what, until when and by whom.
func overridden(o *limit.Override) string {
	var settings []string
	if o.Max != nil {
		settings = append(settings, fmt.Sprintf("max %d", *o.Max))
	}
	if o.Refill != nil {
		settings = append(settings, fmt.Sprintf("refill %d", *o.Refill))
	}
	if o.Interval != nil {
		settings = append(settings, fmt.Sprintf("interval %v", *o.Interval))
	}
	text := strings.Join(settings, ", ")
	if !o.Expires.IsZero() {
		text += " until " + absolute(o.Expires)
	}
	return text + " by " + cmp.Or(o.By, "(nobody named)")
}
