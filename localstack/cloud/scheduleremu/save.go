package scheduleremu

import (
	"fmt"
	"io"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/sluice-dev/sluice/localstack/cloud/internal/sortedmap"
)

// savedGroup is what of a group outlives its server.
type savedGroup struct {
	Name      string
	Created   time.Time
	Modified  time.Time
	Token     string
	Tags      map[string]string
	Schedules []savedSchedule
}

type savedSchedule struct {
	Name       string
	Definition definition
	Created    time.Time
	Modified   time.Time
	Token      string
	Request    string
	// Next is the invocation that the schedule is armed for.
	Next *savedInvocation `json:",omitzero"`
	// Open is the time of an invocation that was under way, or being retried: it
	// is made again.
	Open *time.Time `json:",omitzero"`
}

type savedInvocation struct {
	Scheduled time.Time
	Due       time.Time // with the lateness it was given
}

// Save writes all groups and schedules, as of one moment, for a [Server.Load] of
// later.
func (s *Server) Save(w io.Writer) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := []savedGroup{}
	for _, g := range s.state.Groups.From("") {
		saved := savedGroup{Name: g.Name, Created: g.Created, Modified: g.Modified, Token: g.Token, Tags: g.Tags}
		for _, sc := range g.schedules.From("") {
			saved.Schedules = append(saved.Schedules, sc.saved())
		}
		out = append(out, saved)
	}
	if err := json.MarshalWrite(w, out); err != nil {
		return fmt.Errorf("save the schedules: %w", err)
	}
	return nil
}

func (sc *schedule) saved() savedSchedule {
	out := savedSchedule{
		Name: sc.Name, Definition: sc.Definition, Created: sc.Created, Modified: sc.Modified,
		Token: sc.Token, Request: sc.Request,
	}
	if sc.armed != nil {
		out.Next = &savedInvocation{sc.armed.fire.Scheduled, sc.armed.due}
	}
	if sc.open > 0 {
		out.Open = &sc.last
	}
	return out
}

// Load replaces all groups and schedules by what [Server.Save] wrote. Nothing
// fires until [Server.Resume], so that the targets can be put in place. Then what
// has become due fires at once, and what was under way fires again; a rate or cron
// fires once for all the times that it has missed.
func (s *Server) Load(r io.Reader) error {
	var in []savedGroup
	if err := json.UnmarshalRead(r, &in, json.RejectUnknownMembers(true)); err != nil {
		return fmt.Errorf("load the schedules: %w", err)
	}
	type restored struct {
		*schedule

		from savedSchedule
	}
	var all []restored
	var groups sortedmap.Map[*group]
	for _, from := range in {
		g := &group{Name: from.Name, Created: from.Created, Modified: from.Modified, Token: from.Token, Tags: from.Tags}
		for _, sc := range from.Schedules {
			zone, err := time.LoadLocation(sc.Definition.ScheduleExpressionTimezone)
			if err != nil {
				return fmt.Errorf("load the schedule %s: %w", sc.Name, err)
			}
			loaded := &schedule{
				Name: sc.Name, Definition: sc.Definition, Created: sc.Created, Modified: sc.Modified,
				Token: sc.Token, Request: sc.Request,
			}
			if loaded.expression, err = parseExpression(sc.Definition.ScheduleExpression, zone); err != nil {
				return fmt.Errorf("load the schedule %s: %w", sc.Name, err)
			}
			g.schedules.Set(sc.Name, loaded)
			all = append(all, restored{loaded, sc})
		}
		groups.Set(g.Name, g)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, g := range s.state.Groups.From("") {
		for _, old := range g.schedules.From("") {
			s.disarm(old)
			old.deleted = true
		}
	}
	s.held = true
	s.state.Groups, s.state.Count = groups, len(all)
	if _, ok := groups.Get(defaultGroup); !ok {
		s.addGroup(defaultGroup, "", nil)
	}
	for _, sc := range all {
		s.rearm(sc.schedule, sc.from)
	}
	return nil
}

// Resume lets schedules fire after a [Server.Load].
func (s *Server) Resume() {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	for _, g := range s.state.Groups.From("") {
		for _, sc := range g.schedules.From("") {
			if missed := sc.armed; missed != nil && !sc.expression.once() && missed.due.Before(now) {
				s.disarm(sc)
				s.fireAgain(sc, missed.fire.Scheduled)
				s.armNext(sc, now)
			}
		}
	}
	s.held = false
	s.setTimer()
}

// rearm puts what a schedule had before it on the agenda again.
func (s *Server) rearm(sc *schedule, from savedSchedule) {
	if from.Next != nil {
		sc.armed = s.invocationAt(sc, *from.Next)
		s.put(sc.armed)
	}
	if from.Open != nil {
		s.fireAgain(sc, *from.Open)
	}
}

// fireAgain makes an invocation that is due at once and not the one that the
// schedule is armed for.
func (s *Server) fireAgain(sc *schedule, scheduled time.Time) {
	again := s.invocationAt(sc, savedInvocation{scheduled, time.Now()})
	sc.open++
	sc.last = scheduled
	s.describe(again)
	s.put(again)
}

func (s *Server) invocationAt(sc *schedule, at savedInvocation) *invocation {
	i := &invocation{schedule: sc, due: at.Due, position: -1}
	i.fire.Scheduled = at.Scheduled
	return i
}
