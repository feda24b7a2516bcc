package cli

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluice-dev/sluice/shared/queue"
	"github.com/sluice-dev/sluice/shared/task"
)

// selection picks tasks by what they have in common instead of by their ids.
type selection struct {
	statuses      statusFlag
	taskType      textFlag
	tags          pairsFlag
	since, before sinceFlag
}

// addFlags adds the filters to a command. Statuses are what --status says besides that it
// selects.
func (s *selection) addFlags(cmd *cobra.Command, statuses string) {
	flags := cmd.Flags()
	flags.Var(&s.statuses, "status", "only these: "+statuses)
	flags.Var(&s.taskType, "type", "only tasks of this `type`")
	flags.Var(&s.tags, "tag", "only tasks with this tag, can be repeated")
	flags.Var(&s.since, "since", "only tasks created since: 24h, 7d or 2027-01-01T00:00:00Z")
	flags.Var(&s.before, "before", "only tasks created before: 24h (older than a day) or a time")
	names := strings.Split(joinStatuses("\n"), "\n")
	// It fails only for a flag that does not exist.
	_ = cmd.RegisterFlagCompletionFunc("status", cobra.FixedCompletions(names, cobra.ShellCompDirectiveNoFileComp))
}

// given tells whether there is any filter.
func (s *selection) given() bool {
	return len(s.statuses.values) > 0 || s.taskType.value != "" || len(s.tags.values) > 0 ||
		!s.since.value.IsZero() || !s.before.value.IsZero()
}

// check refuses filters that nothing can pass.
func (s *selection) check() error {
	if since, before := s.since.value, s.before.value; !before.IsZero() && !since.Before(before) {
		return usagef("--since %s is not before --before %s: no task is between them", since.UTC().Format(time.RFC3339), before.UTC().Format(time.RFC3339))
	}
	return nil
}

func (s *selection) options() queue.ListOptions {
	return queue.ListOptions{
		Statuses: s.statuses.values, Type: s.taskType.value, Tags: s.tags.values,
		Since: s.since.value, Before: s.before.value,
	}
}

// selects tells whether a task passes the filters.
func (s *selection) selects(t task.Task) bool {
	for name, value := range s.tags.values {
		if got, ok := t.Tags[name]; !ok || got != value {
			return false
		}
	}
	return (s.taskType.value == "" || t.Type == s.taskType.value) &&
		!t.CreatedAt.Before(s.since.value) &&
		(s.before.value.IsZero() || t.CreatedAt.Before(s.before.value)) &&
		(len(s.statuses.values) == 0 || slices.Contains(s.statuses.values, t.Status))
}

// tooOld tells of an id alone that its task was created before --since.
func (s *selection) tooOld(id string) bool {
	made, ok := task.IDTime(id)
	return ok && made.Before(s.since.value.Truncate(time.Millisecond))
}

// statusFlag is a list of statuses, parted by commas or given several times.
type statusFlag struct{ values []task.Status }

func (f *statusFlag) Set(s string) error {
	for name := range strings.SplitSeq(s, ",") {
		status := task.Status(strings.TrimSpace(name))
		if !slices.Contains(task.Statuses(), status) {
			return fmt.Errorf("is no status: use %s", joinStatuses(", "))
		}
		f.values = append(f.values, status)
	}
	return nil
}

func (f *statusFlag) String() string { return "" }
func (f *statusFlag) Type() string   { return "status" }

func joinStatuses(sep string) string { return join(task.Statuses(), sep) }

func join(statuses []task.Status, sep string) string {
	names := make([]string, 0, len(statuses))
	for _, s := range statuses {
		names = append(names, string(s))
	}
	return strings.Join(names, sep)
}

// sinceFlag is a time, or a duration before now.
type sinceFlag struct{ value time.Time }

func (f *sinceFlag) Set(s string) (err error) {
	f.value, err = parseSince(s, time.Now())
	return err
}

func (f *sinceFlag) String() string { return "" }
func (f *sinceFlag) Type() string   { return "duration or time" }

// tally counts tasks by status.
type tally map[task.Status]int

func (n tally) total() int {
	sum := 0
	for _, count := range n {
		sum += count
	}
	return sum
}

// String is the number of tasks, with what they are when that differs.
func (n tally) String() string {
	var parts []string
	for _, s := range task.Statuses() {
		if n[s] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n[s], s))
		}
	}
	text := tasks(n.total())
	switch len(parts) {
	case 0:
		return text
	case 1:
		_, status, _ := strings.Cut(parts[0], " ")
		return strings.Replace(text, " ", " "+status+" ", 1)
	}
	return fmt.Sprintf("%s (%s)", text, strings.Join(parts, ", "))
}

// tasks is a number of tasks in words.
func tasks(n int) string {
	if n == 1 {
		return "1 task"
	}
	return fmt.Sprintf("%d tasks", n)
}
