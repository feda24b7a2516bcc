package scheduleremu

import (
	"encoding/base64"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
)

// schedule is one schedule. Server.mu guards it.
type schedule struct {
	Name       string
	Definition definition // complete: nothing left to its default
	Created    time.Time
	Modified   time.Time
	Token      string // client token of the request that created it
	Request    string // the request's body, to tell a repetition from a mistake

	expression expression
	armed      *invocation // the next one, nil when there is none
	open       int         // invocations that are neither successful nor given up
	last       time.Time   // for which the newest of them was scheduled
	deleted    bool
}

func (s *Server) scheduleARN(group, name string) string {
	return "arn:aws:scheduler:" + s.options.Region + ":" + s.options.AccountID + ":schedule/" + group + "/" + name
}

type scheduleARNResult struct {
	ScheduleArn string
}

func (s *Server) createSchedule(r *request) (any, error) {
	now := time.Now()
	d, e, err := r.readDefinition(now)
	s.mu.Lock()
	defer s.mu.Unlock()
	g, groupErr := s.group(d.GroupName)
	if groupErr == nil {
		// Answered even when the schedule's time has passed by now.
		if old, ok := g.schedules.Get(r.name); ok && d.repeats(old) {
			return scheduleARNResult{s.scheduleARN(g.Name, r.name)}, nil
		} else if ok && err == nil {
			return nil, conflict("Schedule %s already exists.", r.name)
		}
	}
	switch {
	case err != nil:
		return nil, err
	case groupErr != nil:
		return nil, groupErr
	case s.state.Count >= s.options.MaxSchedules:
		return nil, &apiError{http.StatusPaymentRequired, "ServiceQuotaExceededException",
			"The maximum number of schedules is reached: " + strconv.Itoa(s.options.MaxSchedules)}
	}
	created := &schedule{
		Name: r.name, Created: now.UTC(), Modified: now.UTC(), Definition: d,
		Token: d.ClientToken, Request: d.fingerprint(), expression: e,
	}
	g.schedules.Set(r.name, created)
	s.state.Count++
	s.armNext(created, time.Time{})
	return scheduleARNResult{s.scheduleARN(g.Name, r.name)}, nil
}

// repeats tells whether this is the request that made a schedule, sent again
// because its answer was lost.
func (d *definition) repeats(old *schedule) bool {
	return d.ClientToken != "" && d.ClientToken == old.Token && d.fingerprint() == old.Request
}

// fingerprint is the definition as text.
func (d *definition) fingerprint() string {
	b, err := json.Marshal(d)
	if err != nil {
		return ""
	}
	return string(b)
}

// readDefinition reads and checks the body of a create or an update. The
// definition is filled in as far as possible on an error too.
func (r *request) readDefinition(now time.Time) (definition, expression, error) {
	var d definition
	if err := r.readJSON(&d); err != nil {
		return d, expression{}, err
	}
	e, err := d.complete(now)
	if nameErr := checkName("name", r.name); nameErr != nil {
		err = nameErr
	}
	return d, e, err
}

// find looks a schedule up. The caller holds the lock.
func (s *Server) find(groupName, name string) (*group, *schedule, error) {
	if groupName == "" {
		groupName = defaultGroup
	}
	if err := checkName("name", name); err != nil {
		return nil, nil, err
	}
	g, err := s.group(groupName)
	if err != nil {
		return nil, nil, err
	}
	found, ok := g.schedules.Get(name)
	if !ok {
		return g, nil, notFound("Schedule %s does not exist.", name)
	}
	return g, found, nil
}

// scheduleResult is the answer of GetSchedule.
type scheduleResult struct {
	definition

	Arn                  string
	Name                 string
	CreationDate         epoch
	LastModificationDate epoch
}

func (s *Server) getSchedule(r *request) (any, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	g, found, err := s.find(r.query.Get("groupName"), r.name)
	if err != nil {
		return nil, err
	}
	out := scheduleResult{
		Arn: s.scheduleARN(g.Name, found.Name), Name: found.Name, definition: found.Definition,
		CreationDate: epoch(found.Created), LastModificationDate: epoch(found.Modified),
	}
	out.ClientToken = ""
	return out, nil
}

// updateSchedule replaces the whole definition: what the request leaves out
// goes back to its default.
func (s *Server) updateSchedule(r *request) (any, error) {
	now := time.Now()
	d, e, err := r.readDefinition(now)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	g, found, err := s.find(d.GroupName, r.name)
	if err != nil {
		return nil, err
	}
	found.Definition, found.expression, found.Modified = d, e, now.UTC()
	s.disarm(found)
	s.armNext(found, time.Time{})
	return scheduleARNResult{s.scheduleARN(g.Name, found.Name)}, nil
}

// tokenMemory is how long a delete that is sent again is recognized.
const tokenMemory = 10 * time.Minute

// deleteSchedule answers a repetition of a delete that succeeded like the
// first one.
func (s *Server) deleteSchedule(r *request) (any, error) {
	token := r.query.Get("clientToken")
	if err := checkToken(token); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	g, found, err := s.find(r.query.Get("groupName"), r.name)
	memory := token + " " + r.query.Get("groupName") + "/" + r.name
	if err != nil {
		if _, repeated := s.state.Deleted[memory]; repeated && token != "" {
			return struct{}{}, nil
		}
		return nil, err
	}
	s.remove(g, found)
	if token != "" {
		s.remember(memory)
	}
	return struct{}{}, nil
}

func (s *Server) remember(deleted string) {
	now := time.Now()
	for len(s.state.Forget) > 0 && now.Sub(s.state.Deleted[s.state.Forget[0]]) > tokenMemory {
		delete(s.state.Deleted, s.state.Forget[0])
		s.state.Forget = s.state.Forget[1:]
	}
	s.state.Deleted[deleted] = now
	s.state.Forget = append(s.state.Forget, deleted)
}

// remove takes a schedule out of its group and off the agenda. The caller
// holds the lock.
func (s *Server) remove(g *group, old *schedule) {
	s.disarm(old)
	old.deleted = true
	g.schedules.Delete(old.Name)
	s.state.Count--
}

type scheduleSummary struct {
	Arn                  string
	Name                 string
	GroupName            string
	State                string
	CreationDate         epoch
	LastModificationDate epoch
	Target               targetSummary
}

type targetSummary struct {
	Arn string
}

type listSchedulesResult struct {
	Schedules []scheduleSummary
	NextToken string `json:",omitempty"`
}

// listSchedules goes through one group, or through all of them, by name.
func (s *Server) listSchedules(r *request) (any, error) {
	limit, err := r.maxResults()
	if err != nil {
		return nil, err
	}
	after, err := r.nextToken()
	if err != nil {
		return nil, err
	}
	afterGroup, afterName, _ := strings.Cut(after, "\x00")
	only, prefix, state := r.query.Get("ScheduleGroup"), r.query.Get("NamePrefix"), r.query.Get("State")
	s.mu.Lock()
	defer s.mu.Unlock()
	if only != "" {
		if _, err := s.group(only); err != nil {
			return nil, err
		}
	}
	out := listSchedulesResult{Schedules: []scheduleSummary{}}
	for groupName, g := range s.state.Groups.From(max(afterGroup, only)) {
		if only != "" && groupName != only {
			break
		}
		start := prefix
		if groupName == afterGroup {
			start = max(prefix, afterName+"\x00")
		}
		for name, found := range g.schedules.From(start) {
			if !strings.HasPrefix(name, prefix) {
				break
			}
			if state != "" && state != found.Definition.State {
				continue
			}
			if len(out.Schedules) == limit {
				last := out.Schedules[limit-1]
				out.NextToken = encodeToken(last.GroupName + "\x00" + last.Name)
				return out, nil
			}
			out.Schedules = append(out.Schedules, s.summary(g, found))
		}
	}
	return out, nil
}

func (s *Server) summary(g *group, found *schedule) scheduleSummary {
	return scheduleSummary{
		Arn: s.scheduleARN(g.Name, found.Name), Name: found.Name, GroupName: g.Name, State: found.Definition.State,
		CreationDate: epoch(found.Created), LastModificationDate: epoch(found.Modified),
		Target: targetSummary{found.Definition.Target.Arn},
	}
}

// maxPage is the number of entries in a page, unless the request wants fewer.
const maxPage = 100

func (r *request) maxResults() (int, error) {
	text := r.query.Get("MaxResults")
	if text == "" {
		return maxPage, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > maxPage {
		return 0, validation(constraintViolation, "'"+text+"'", "maxResults", "Member must be between 1 and 100")
	}
	return n, nil
}

func encodeToken(last string) string { return base64.RawURLEncoding.EncodeToString([]byte("1" + last)) }

func (r *request) nextToken() (string, error) {
	token := r.query.Get("NextToken")
	if token == "" {
		return "", nil
	}
	b, err := base64.RawURLEncoding.DecodeString(token)
	if err != nil || len(b) == 0 || b[0] != '1' {
		return "", validation("Invalid NextToken: pass on the token of the page before, unchanged")
	}
	return string(b[1:]), nil
}
