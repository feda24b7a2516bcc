package scheduleremu

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/sluice-dev/sluice/localstack/cloud/internal/sortedmap"
)

// group is a schedule group. Server.mu guards it.
type group struct {
	Name      string
	Created   time.Time
	Modified  time.Time
	Token     string // client token of the request that created it
	Tags      map[string]string
	schedules sortedmap.Map[*schedule]
}

type tagElement struct {
	Key   string
	Value string
}

type createGroupRequest struct {
	ClientToken string
	Tags        []tagElement
}

type groupARNResult struct {
	ScheduleGroupArn string
}

func (s *Server) groupARN(name string) string {
	return "arn:aws:scheduler:" + s.options.Region + ":" + s.options.AccountID + ":schedule-group/" + name
}

// group looks a group up. The caller holds the lock.
func (s *Server) group(name string) (*group, error) {
	g, ok := s.state.Groups.Get(name)
	if !ok {
		return nil, notFound("Schedule group %s does not exist.", name)
	}
	return g, nil
}

func (s *Server) addGroup(name, token string, tags []tagElement) {
	now := time.Now().UTC()
	g := &group{Name: name, Created: now, Modified: now, Token: token, Tags: map[string]string{}}
	for _, t := range tags {
		g.Tags[t.Key] = t.Value
	}
	s.state.Groups.Set(name, g)
}

func (s *Server) createGroup(r *request) (any, error) {
	var in createGroupRequest
	if err := r.readJSON(&in); err != nil {
		return nil, err
	}
	if err := checkName("name", r.name); err != nil {
		return nil, err
	}
	if err := checkToken(in.ClientToken); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if old, err := s.group(r.name); err == nil {
		if in.ClientToken == "" || in.ClientToken != old.Token {
			return nil, conflict("Schedule group %s already exists.", r.name)
		}
		return groupARNResult{s.groupARN(r.name)}, nil
	}
	if len(in.Tags) > maxTags {
		return nil, validation("A schedule group has at most %d tags", maxTags)
	}
	s.addGroup(r.name, in.ClientToken, in.Tags)
	return groupARNResult{s.groupARN(r.name)}, nil
}

// groupResult describes a group, in GetScheduleGroup and ListScheduleGroups.
type groupResult struct {
	Arn                  string
	Name                 string
	State                string
	CreationDate         epoch
	LastModificationDate epoch
}

func (s *Server) describeGroup(g *group) groupResult {
	return groupResult{
		Arn: s.groupARN(g.Name), Name: g.Name, State: statusActive,
		CreationDate: epoch(g.Created), LastModificationDate: epoch(g.Modified),
	}
}

func (s *Server) getGroup(r *request) (any, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := checkName("name", r.name); err != nil {
		return nil, err
	}
	g, err := s.group(r.name)
	if err != nil {
		return nil, err
	}
	return s.describeGroup(g), nil
}

// deleteGroup deletes the group's schedules too. The service takes a while
// for that; here it is done when the request is answered.
func (s *Server) deleteGroup(r *request) (any, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := checkName("name", r.name); err != nil {
		return nil, err
	}
	if r.name == defaultGroup {
		return nil, validation("The default schedule group cannot be deleted.")
	}
	g, err := s.group(r.name)
	if err != nil {
		return nil, err
	}
	var all []*schedule
	for _, old := range g.schedules.From("") {
		all = append(all, old)
	}
	for _, old := range all {
		s.remove(g, old)
	}
	s.state.Groups.Delete(r.name)
	return struct{}{}, nil
}

type listGroupsResult struct {
	ScheduleGroups []groupResult
	NextToken      string `json:",omitempty"`
}

func (s *Server) listGroups(r *request) (any, error) {
	limit, err := r.maxResults()
	if err != nil {
		return nil, err
	}
	after, err := r.nextToken()
	if err != nil {
		return nil, err
	}
	prefix := r.query.Get("NamePrefix")
	start := prefix
	if after != "" {
		start = max(prefix, after+"\x00")
	}
	out := listGroupsResult{ScheduleGroups: []groupResult{}}
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, g := range s.state.Groups.From(start) {
		if !strings.HasPrefix(name, prefix) {
			break
		}
		if len(out.ScheduleGroups) == limit {
			out.NextToken = encodeToken(out.ScheduleGroups[limit-1].Name)
			break
		}
		out.ScheduleGroups = append(out.ScheduleGroups, s.describeGroup(g))
	}
	return out, nil
}

// tagged finds the group with an ARN; only groups have tags.
func (s *Server) tagged(arn string) (*group, error) {
	name, ok := strings.CutPrefix(arn, s.groupARN(""))
	if !ok {
		return nil, validation("%s is not the ARN of a schedule group here", arn)
	}
	return s.group(name)
}

type tagsResult struct {
	Tags []tagElement
}

func (s *Server) listTags(r *request) (any, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	g, err := s.tagged(r.name)
	if err != nil {
		return nil, err
	}
	out := tagsResult{Tags: []tagElement{}}
	for _, key := range slices.Sorted(maps.Keys(g.Tags)) {
		out.Tags = append(out.Tags, tagElement{key, g.Tags[key]})
	}
	return out, nil
}

func (s *Server) tag(r *request) (any, error) {
	var in tagsResult
	if err := r.readJSON(&in); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	g, err := s.tagged(r.name)
	if err != nil {
		return nil, err
	}
	for _, t := range in.Tags {
		g.Tags[t.Key] = t.Value
	}
	return struct{}{}, nil
}

func (s *Server) untag(r *request) (any, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	g, err := s.tagged(r.name)
	if err != nil {
		return nil, err
	}
	for _, key := range r.query["TagKeys"] {
		delete(g.Tags, key)
	}
	return struct{}{}, nil
}
