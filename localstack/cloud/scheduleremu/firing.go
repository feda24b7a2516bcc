package scheduleremu

import (
	"container/heap"
	"time"

	"github.com/go-json-experiment/json"
)

// invocation is one firing of a schedule, from being armed to success or
// being given up. Its retries are the same invocation.
type invocation struct {
	schedule  *schedule
	target    *target // as it was when the invocation became due
	fire      Fire
	first     time.Time // when it was tried first
	due       time.Time // when it is to be tried (next)
	sequence  uint64    // orders what is due at the same time
	position  int       // on the agenda, -1 when it is not there
	decided   bool      // Options.Deliver was asked
	lastError error
}

// agenda is a heap of invocations by due time: one timer serves all of them.
type agenda []*invocation //nolint:recvcheck // package heap wants these receivers

func (a agenda) Len() int { return len(a) }

func (a agenda) Less(i, j int) bool {
	if a[i].due.Equal(a[j].due) {
		return a[i].sequence < a[j].sequence
	}
	return a[i].due.Before(a[j].due)
}

func (a agenda) Swap(i, j int) {
	a[i], a[j] = a[j], a[i]
	a[i].position, a[j].position = i, j
}

// Push is for package heap.
func (a *agenda) Push(x any) {
	i := x.(*invocation) //nolint:errcheck,forcetypeassert // put pushes nothing else
	i.position = len(*a)
	*a = append(*a, i)
}

// Pop is for package heap.
func (a *agenda) Pop() any {
	last := len(*a) - 1
	i := (*a)[last]
	(*a)[last] = nil
	*a = (*a)[:last]
	i.position = -1
	return i
}

// armNext puts the first invocation after a moment on the agenda; a zero
// moment means the schedule is new, and it may fire at once. The caller holds
// the lock.
func (s *Server) armNext(sc *schedule, after time.Time) {
	d := &sc.Definition
	if d.State != stateEnabled {
		return
	}
	anchor := sc.Modified
	if start := d.StartDate.time(); !start.IsZero() {
		anchor = start
	}
	if after.IsZero() {
		after = sc.Modified.Add(-1)
		if !sc.expression.once() && anchor.After(after) {
			after = anchor.Add(-1)
		}
	}
	at, ok := sc.expression.next(anchor, after)
	if end := d.EndDate.time(); !ok || !sc.expression.once() && !end.IsZero() && at.After(end) {
		return
	}
	i := &invocation{schedule: sc, due: at.Add(max(s.options.Lateness(), 0)), position: -1}
	i.fire.Scheduled = at.UTC()
	sc.armed = i
	s.put(i)
}

// disarm takes a schedule's next invocation off the agenda.
func (s *Server) disarm(sc *schedule) {
	if sc.armed != nil && sc.armed.position >= 0 {
		heap.Remove(&s.agenda, sc.armed.position)
	}
	sc.armed = nil
}

// put adds an invocation to the agenda.
func (s *Server) put(i *invocation) {
	s.state.Sequence++
	i.sequence = s.state.Sequence
	heap.Push(&s.agenda, i)
	if s.agenda[0] == i {
		s.setTimer()
	}
}

// setTimer aims the timer at the head of the agenda. A timer that goes off
// for an invocation which has been taken off meanwhile does no harm.
func (s *Server) setTimer() {
	if s.closed || s.held || len(s.agenda) == 0 {
		return
	}
	wait := max(time.Until(s.agenda[0].due), 0)
	if s.timer == nil {
		s.timer = time.AfterFunc(wait, s.ring)
		return
	}
	s.timer.Reset(wait)
}

// ring starts everything that is due.
func (s *Server) ring() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.held {
		return
	}
	now := time.Now()
	for len(s.agenda) > 0 && !s.agenda[0].due.After(now) {
		i := heap.Pop(&s.agenda).(*invocation) //nolint:errcheck,forcetypeassert // see Push
		s.start(i)
	}
	s.setTimer()
}

// start hands an invocation to a worker. One that is tried for the first
// time makes room for its schedule's next one.
func (s *Server) start(i *invocation) {
	sc := i.schedule
	if sc.armed == i {
		sc.armed = nil
		sc.open++
		sc.last = i.fire.Scheduled
		s.describe(i)
		if !sc.expression.once() {
			s.armNext(sc, i.fire.Scheduled)
		}
	}
	if s.workers == s.options.Concurrency {
		s.line = append(s.line, i)
		return
	}
	s.workers++
	s.running.Go(func() { s.work(i) })
}

// describe fills in what the target is told.
func (s *Server) describe(i *invocation) {
	sc := i.schedule
	i.target = sc.Definition.Target
	i.fire.Group, i.fire.Name = sc.Definition.GroupName, sc.Name
	i.fire.ScheduleARN = s.scheduleARN(i.fire.Group, i.fire.Name)
	i.fire.TargetARN, i.fire.RoleARN = i.target.Arn, i.target.RoleArn
	if i.target.DeadLetterConfig != nil {
		i.fire.DeadLetterARN = i.target.DeadLetterConfig.Arn
	}
}

// work invokes one target after another until none waits in line.
func (s *Server) work(i *invocation) {
	for i != nil {
		s.try(i)
		s.mu.Lock()
		i = nil
		if len(s.line) > 0 {
			i, s.line = s.line[0], s.line[1:]
		} else {
			s.workers--
		}
		s.mu.Unlock()
	}
}

// try makes one attempt, and another one beside it if the delivery is to be
// doubled.
func (s *Server) try(i *invocation) {
	now := time.Now()
	if i.fire.Attempt++; i.fire.Attempt == 1 {
		i.first = now
	}
	i.fire.ExecutionID = randomHex(8)
	i.fire.Input = i.input()
	if !i.decided {
		i.decided = true
		switch s.options.Deliver(i.fire) {
		case Drop:
			s.finish(i)
			return
		case DeliverOnce:
		case DeliverTwice:
			twin := *i
			twin.fire.Attempt = 0
			s.mu.Lock()
			i.schedule.open++
			if !s.closed {
				s.start(&twin)
			}
			s.mu.Unlock()
		}
	}
	var err error
	if s.options.OnFire != nil {
		err = s.options.OnFire(s.ctx, i.fire)
	}
	if err == nil {
		s.finish(i)
		return
	}
	i.lastError = err
	s.retry(i)
}

// input is the target's input with its keywords replaced, or the event that
// the service makes up when there is none.
func (i *invocation) input() string {
	if i.target.Input != "" {
		return i.fire.replaceKeywords(i.target.Input)
	}
	b, err := json.Marshal(map[string]any{
		"version": "0", "id": requestID(), "detail-type": "Scheduled Event", "source": "aws.scheduler",
		"time":      i.fire.Scheduled.Format("2006-01-02T15:04:05Z"),
		"resources": []string{i.fire.ScheduleARN}, "detail": "{}",
	}, json.Deterministic(true))
	if err != nil {
		return "{}"
	}
	return string(b)
}

// retry arms the next attempt, or gives the invocation up when the retry
// policy allows none.
func (s *Server) retry(i *invocation) {
	if s.ctx.Err() != nil {
		return
	}
	policy := i.target.RetryPolicy
	due := time.Now().Add(s.options.RetryDelay(i.fire.Attempt))
	condition := ""
	switch {
	case i.fire.Attempt > *policy.MaximumRetryAttempts:
		condition = "MaximumRetryAttempts"
	case due.Sub(i.first) > time.Duration(*policy.MaximumEventAgeInSeconds)*time.Second:
		condition = "MaximumEventAgeInSeconds"
	}
	if condition == "" {
		s.mu.Lock()
		i.due = due
		s.put(i)
		s.mu.Unlock()
		return
	}
	if s.options.OnDeadLetter != nil {
		s.options.OnDeadLetter(s.ctx, DeadLetter{Fire: i.fire, Err: i.lastError, Condition: condition})
	}
	s.finish(i)
}

// finish ends an invocation. The schedule goes away if it was the last one
// and the schedule says so.
func (s *Server) finish(i *invocation) {
	s.mu.Lock()
	defer s.mu.Unlock()
	sc := i.schedule
	sc.open--
	d := &sc.Definition
	if sc.open > 0 || sc.armed != nil || sc.deleted || d.State != stateEnabled || d.ActionAfterCompletion != actionDelete {
		return
	}
	if g, ok := s.state.Groups.Get(d.GroupName); ok {
		s.remove(g, sc)
	}
}
