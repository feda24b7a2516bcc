package task

import (
	"fmt"
	"strconv"
	"time"
)

// Entry is one line of a task's history.
type Entry struct {
	// Version counts from 1, the creation.
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
	entries := []Entry{{Version: 1, At: first.CreatedAt, Status: Pending, Text: "pending (created)"}}
	prev := Task{ID: first.ID, Status: Pending, MaxRetries: first.MaxRetries}
	for _, t := range versions {
		entries = append(entries, Entry{
			Version: len(entries) + 1,
			At:      t.UpdatedAt,
			Status:  t.Status,
			Text:    describe(prev, t),
		})
		prev = t
	}
	return entries
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
	wait := "available_at: +" + seconds(t.AvailableAt.Sub(t.UpdatedAt))
	switch {
	case prev.Status.Terminal():
		return "replayed"
	case t.RescheduleCount > prev.RescheduleCount:
		return fmt.Sprintf("rescheduled, %s, count: %d", wait, t.RescheduleCount)
	case t.RetryCount > prev.RetryCount:
		return fmt.Sprintf("retry %d of %d, %s, error: %s", t.RetryCount, t.MaxRetries, wait, t.LastError)
	case t.ThrottleCount > prev.ThrottleCount && t.Throttled != nil:
		return fmt.Sprintf("throttled by %s, %s, count: %d", tierName(t.Throttled), wait, t.ThrottleCount)
	case t.Throttled != nil && t.Throttled.Reason != "":
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

// seconds writes a duration as the seed's history does: in seconds, however
// long, to the millisecond.
func seconds(d time.Duration) string {
	return strconv.FormatFloat(d.Round(time.Millisecond).Seconds(), 'f', -1, 64) + "s"
}
