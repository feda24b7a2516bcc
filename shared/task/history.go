package task

import (
	"fmt"
	"strings"
	"time"
)

// Entry is one line of a task's history.
type Entry struct {
	// Version counts from 1, the creation. A gap means that versions of the
	// record in between are past their retention.
	Version int `json:"version"`
	// At is when the record was written.
	At time.Time `json:"at"`
	// Status is the status from then on.
	Status Status `json:"status"`
	// Text is the status with what led to it, such as
	// "pending (rescheduled, available_at: +60s, count: 1)".
	Text string `json:"text"`
}

func (e Entry) String() string { return fmt.Sprintf("Version %d: %s", e.Version, e.Text) }

// History words a task's life: the creation, then every version of its
// record, which are given oldest first.
func History(versions []Task) []Entry {
	if len(versions) == 0 {
		return nil
	}
	first := versions[0]
	entries := []Entry{Creation(first.CreatedAt)}
	prev := Task{Status: Pending}
	for _, t := range versions {
		if t.Revision != prev.Revision+1 { // what led here is not known
			prev = t
		}
		entries = append(entries, Entry{
			Version: int(t.Revision) + 1,
			At:      t.UpdatedAt,
			Status:  t.Status,
			Text:    describe(prev, t),
		})
		prev = t
	}
	return entries
}

// Creation is the first entry of every history.
func Creation(created time.Time) Entry {
	return Entry{Version: 1, At: created, Status: Pending, Text: "pending (created)"}
}

// describe words the step from one version to the next.
func describe(prev, t Task) string {
	switch t.Status {
	case Running:
		if t.CancelRequested && !prev.CancelRequested {
			return "running (cancel requested)"
		}
		return "running (claimed by " + t.WorkerID + ")"
	case Pending:
		return "pending (" + describeSleep(prev, t) + ")"
	case Failed:
		return "failed (" + t.LastError + ")"
	default:
		return string(t.Status)
	}
}

func describeSleep(prev, t Task) string {
	wait := "available_at: +" + secondsBetween(t.UpdatedAt, t.AvailableAt)
	switch {
	case prev.Status.Terminal():
		return "replayed"
	case t.RescheduleCount > prev.RescheduleCount:
		return fmt.Sprintf("rescheduled, %s, count: %d", wait, t.RescheduleCount)
	case t.RetryCount > prev.RetryCount:
		return fmt.Sprintf("retry %d of %d, %s, error: %s", t.RetryCount, t.MaxRetries, wait, t.LastError)
	case t.Throttled != nil && t.Throttled.Policy != "":
		return fmt.Sprintf("throttled by %s, %s, count: %d", tierName(t.Throttled), wait, t.ThrottleCount)
	case t.Throttled != nil && t.Throttled.Reason == "":
		return "deferred, " + wait
	case t.Throttled != nil:
		return fmt.Sprintf("deferred, %s, reason: %s", wait, t.Throttled.Reason)
	case t.UnhandledSince != nil:
		return "no handler yet, " + wait
	default:
		return wait
	}
}

func tierName(t *Throttled) string {
	if t.Key == "" {
		return t.Policy
	}
	return fmt.Sprintf("%s %q", t.Policy, t.Key)
}

// secondsBetween writes the time from one instant to another as "60s": in
// seconds, however many, to the millisecond. A Duration would end at 292 years.
func secondsBetween(from, to time.Time) string {
	const perSecond = 1000
	ms := to.UnixMilli() - from.UnixMilli()
	sign := ""
	if ms < 0 {
		sign, ms = "-", -ms
	}
	s := fmt.Sprintf("%s%d.%03d", sign, ms/perSecond, ms%perSecond)
	return strings.TrimSuffix(strings.TrimRight(s, "0"), ".") + "s"
}
