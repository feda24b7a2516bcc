package faultproof_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/sluice-dev/sluice/shared/dynamolimit"
	"github.com/sluice-dev/sluice/shared/s3store"
	"github.com/sluice-dev/sluice/shared/task"
	"github.com/sluice-dev/sluice/shared/wakeup"
)

// observed is what the world saw of a task: every write of its record that
// took place, in order.
type observed struct {
	writes []write
	leases map[string]bool // under which a handler ran
}

type write struct {
	task task.Task
	by   *instance
}

// task is the record as it stands, the zero task if there is none.
func (o *observed) task() task.Task {
	if len(o.writes) == 0 {
		return task.Task{}
	}
	return o.writes[len(o.writes)-1].task
}

// observed is what was seen of a task. The caller holds the lock.
func (w *world) observed(id string) *observed {
	o := w.tasks[id]
	if o == nil {
		o = &observed{leases: map[string]bool{}}
		w.tasks[id] = o
	}
	return o
}

// idOf is the task that a key names.
func idOf(key string) string {
	return strings.TrimSuffix(key[strings.LastIndex(key, "/")+1:], ".json")
}

// before looks at a request that is about to be carried out.
func (w *world) before(x *exchange) {
	if x.req.operation != "CreateSchedule" {
		return
	}
	id, second, ok := wakeup.ParseName(x.req.name)
	w.mu.Lock()
	defer w.mu.Unlock()
	if !ok {
		w.complain("a schedule is called %q", x.req.name)
	}
	w.armed[id] = append(w.armed[id], second)
}

// after looks at a request that was carried out.
func (w *world) after(x *exchange, response *http.Response) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case x.req.operation == "PutObject" && x.req.area == "tasks":
		w.recordWritten(x)
	case x.req.operation == "PutObject" && x.req.area == "inbox":
		w.inbox[response.Header.Get("X-Amz-Version-Id")] = true
	case x.req.operation == "DeleteObject" && x.req.area == "inbox":
		w.inboxRemoved(x)
	case x.req.operation == "DeleteObjects" && x.req.area == "inbox":
		clear(w.inbox)
	}
}

// recordWritten holds a write of a record against the rules. The caller holds
// the lock.
func (w *world) recordWritten(x *exchange) {
	next, err := task.Decode(x.req.body)
	if err != nil {
		w.complain("%s wrote what is no record: %v", x.instance.name, err)
		return
	}
	o := w.observed(next.ID)
	prev := o.task()
	o.writes = append(o.writes, write{next, x.instance})
	if next.Status == task.Running && next.LeaseID != prev.LeaseID {
		w.claims = append(w.claims, time.Now())
	}
	if !next.Status.Terminal() && !w.scenario.purged && !w.inInbox(next.InboxVersion) {
		w.complain("task %s is %s and not in the inbox", next.ID, next.Status)
	}
	if err := legal(prev, next, x.instance); err != nil {
		w.complain("task %s, revision %d, written by %s: %v", next.ID, next.Revision, x.instance.name, err)
	}
	if runner := w.running[next.ID]; runner != nil && x.client == claimClient {
		w.complain("task %s was written (%s, by %s) while its handler runs on %s", next.ID, next.Status, x.instance.name, runner.name)
	}
	if x.client == claimClient && next.Status == task.Pending && !w.wakeUpFor(next) && len(w.down) == 0 {
		w.complain("task %s sleeps until %s and no wake-up is armed", next.ID, next.AvailableAt)
	}
}

func (w *world) inInbox(version string) bool {
	_, in := w.inbox[version]
	return in
}

// wakeUpFor tells whether a wake-up for a sleeping task was asked for, or one
// for a leg of a far time.
func (w *world) wakeUpFor(t task.Task) bool {
	look := t.NextLook()
	latest := look
	if now := time.Now(); look.Before(now) {
		latest = now // it has expired
	}
	leg := time.Now().Add(80 * 24 * time.Hour)
	return slices.ContainsFunc(w.armed[t.ID], func(second int64) bool {
		at := time.Unix(second, 0)
		return !at.Before(look) && at.Before(latest.Add(time.Minute)) || at.After(leg) && look.After(leg)
	})
}

// inboxRemoved: the inbox lists every live task. The caller holds the lock.
func (w *world) inboxRemoved(x *exchange) {
	if x.req.version == "" {
		w.complain("%s deleted %s without a version: that leaves a delete marker", x.instance.name, x.req.key)
	}
	id := idOf(x.req.key)
	t := w.observed(id).task()
	submission := w.inbox[x.req.version]
	delete(w.inbox, x.req.version)
	switch {
	case t.ID == "" && submission:
		w.complain("%s removed the submission of task %s, which has no record", x.instance.name, id)
	case t.ID != "" && !t.Status.Terminal() && t.InboxVersion == x.req.version:
		w.complain("%s removed task %s from the inbox while it is %s", x.instance.name, id, t.Status)
	}
}

// legal tells whether a record may follow another one, written by this
// instance.
func legal(prev, next task.Task, by *instance) error {
	if prev.ID == "" {
		prev = task.Task{Status: task.Pending, Attempt: 0}
	}
	if next.Revision != prev.Revision+1 {
		return fmt.Errorf("revision %d follows %d", next.Revision, prev.Revision)
	}
	if next.WriteID == prev.WriteID {
		return errors.New("the write id was used twice")
	}
	switch {
	case prev.Status.Terminal():
		if next.Status != task.Pending || next.Attempt+next.RetryCount+next.RescheduleCount+next.ThrottleCount != 0 || next.LastError != "" {
			return fmt.Errorf("%s follows %s, and no replay does that", next.Status, prev.Status)
		}
		return nil
	case prev.Status == task.Pending && next.Status == task.Running:
		if next.Attempt != prev.Attempt+1 || next.WorkerID != by.name {
			return fmt.Errorf("the claim is attempt %d of %s, after attempt %d", next.Attempt, next.WorkerID, prev.Attempt)
		}
	case next.Attempt != prev.Attempt:
		return fmt.Errorf("attempt %d follows %d", next.Attempt, prev.Attempt)
	case prev.Status == task.Running && next.Status == task.Running:
		if !next.CancelRequested || next.LeaseID != prev.LeaseID {
			return errors.New("a running task was changed")
		}
	case prev.Status == task.Running:
		if err := ended(prev, next, by); err != nil {
			return err
		}
	}
	grown := next.RetryCount - prev.RetryCount + next.RescheduleCount - prev.RescheduleCount
	if grown < 0 || grown > 1 || grown == 1 && (prev.Status != task.Running || next.Status != task.Pending) {
		return fmt.Errorf("retries %d → %d, reschedules %d → %d", prev.RetryCount, next.RetryCount, prev.RescheduleCount, next.RescheduleCount)
	}
	return nil
}

// ended tells whether this instance may end the run: its owner may, and
// anybody when the lease is over.
func ended(prev, next task.Task, by *instance) error {
	timedOut := strings.HasPrefix(next.LastError, "Timeout") || next.Status == task.Cancelled
	if by.name == prev.WorkerID || timedOut && prev.LeaseOver(next.UpdatedAt) {
		return nil
	}
	return fmt.Errorf("the run belongs to %s until %s, and became %s at %s", prev.WorkerID, prev.LeaseExpiresAt, next.Status, next.UpdatedAt)
}

// want is how a task must end.
type want struct {
	status               task.Status
	retries, reschedules int64
	output               any    // nil for none
	lastError            string // how it begins
	// ranOnce allows that the task was claimed, or not, before somebody else ended it.
	maybeClaimed bool
	// orElse is how it may end instead under a fault, or with clocks, that change the order
	// of things.
	orElse task.Status
}

// check holds a task that has ended against what is wanted. The plan's faults
// may have cost retries.
func (w *world) check(id string, want want) {
	if w.scenario.purged {
		return
	}
	t := w.observed(id).task()
	cost := w.plan.cost()
	complain := func(format string, args ...any) {
		w.complain("task %s: "+format+": %s", append(append([]any{id}, args...), t.Encode())...)
	}
	if (len(w.plan) > 0 || w.variant != 0) && want.orElse != "" && t.Status == want.orElse {
		want.status = want.orElse
	}
	switch {
	case t.Status != want.status:
		complain("is %q, want %s", t.Status, want.status)
		return
	case t.RetryCount < want.retries || t.RetryCount > want.retries+cost:
		complain("retried %d times, want %d and at most %d more", t.RetryCount, want.retries, cost)
	case t.RescheduleCount != want.reschedules && !want.maybeClaimed:
		complain("rescheduled %d times, want %d", t.RescheduleCount, want.reschedules)
	}
	runs := t.RetryCount + t.RescheduleCount
	if t.Status == task.Completed || t.Status == task.Failed && !strings.Contains(t.LastError, "timeout_seconds") && !strings.Contains(t.LastError, "no handler") {
		runs++
	}
	if t.Attempt != runs && (!want.maybeClaimed || t.Attempt != runs+1) {
		complain("attempt %d after %d retries and %d reschedules", t.Attempt, t.RetryCount, t.RescheduleCount)
	}
	if cost == 0 && !strings.HasPrefix(t.LastError, want.lastError) {
		complain("last error %q, want %q", t.LastError, want.lastError)
	}
	if want.output != nil {
		output, err := json.Marshal(want.output)
		if err != nil {
			w.t.Error(err)
		}
		if got := w.audit().get(id).Output; string(got) != string(output) {
			complain("has an output of %d bytes (%.40s), want %.40s", len(got), got, output)
		}
	}
}

// checkEnd holds what is left of the whole life against what is wanted.
func (w *world) checkEnd() {
	a := w.audit()
	areas := []string{"inbox/"}
	if w.scenario.purged {
		areas = append(areas, "tasks/", "payloads/")
	}
	for _, left := range a.left(areas...) {
		w.complain("left behind: %s", left)
	}
	for _, key := range a.keys("tasks/") {
		if a.tags(key) != s3store.FinishedTag {
			w.complain("%s is not marked as finished", key)
		}
	}
	for _, key := range a.keys("payloads/") {
		if a.tags(key) != s3store.FinishedTag {
			w.complain("%s is not marked as that of a finished task", key)
		}
	}
	if got := len(a.keys("quarantine/")); got != w.scenario.quarantined {
		w.complain("%d objects in quarantine, want %d", got, w.scenario.quarantined)
	}
	if letters := w.cloud.SQS().Messages(w.stack.DeadLetters); w.plan.cost() == 0 && len(letters) > 0 {
		w.complain("dead letter: %s", letters[0].Body)
	}
	w.checkLimit()
	if w.scenario.parks {
		w.checkParked()
	}
	for _, id := range slices.Sorted(maps.Keys(w.tasks)) {
		if _, known := w.scenario.want[id]; !known && len(w.tasks[id].writes) > 0 {
			w.complain("task %s came from nowhere", id)
		}
	}
}

// checkLimit holds the claims against the limit: each was paid for, once, and
// none came too soon. Where it can't be known whether a charge or a claim took place, tokens may
// be lost, never minted.
func (w *world) checkLimit() {
	if w.scenario.quota {
		reading, err := dynamolimit.New(dynamodb.NewFromConfig(w.config(auditClient, nil)), w.stack.Table).Inspect(context.Background(), w.scenario.limit.Key(""))
		used, claims := reading.Used+w.granted, int64(len(w.claims))
		if err != nil || used < claims || used > claims+int64(len(w.doubted)) {
			w.complain("%d units were charged for %d claims, %v", used, claims, err)
		}
	}
	least := w.scenario.gap
	if w.variant == 0 && len(w.plan) == 0 {
		least = max(least, w.scenario.fine)
	}
	for i := 1; i < len(w.claims); i++ {
		if gap := w.claims[i].Sub(w.claims[i-1]); gap < least {
			w.complain("a claim %s after the one before, want %s at least", gap, least)
		}
	}
}
