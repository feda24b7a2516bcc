package dynamodbemu

import (
	"errors"
	"strings"
	"time"
)

// table finds a table for an operation on items, rid of what TTLDelay deletes.
func (s *Server) table(name string) (*table, error) {
	t := s.tables[name]
	if t == nil {
		return nil, errResourceNotFound()
	}
	if s.opts.TTLDelay > 0 && t.ttlName != "" {
		t.expireUntil(s.opts.Clock().Add(-s.opts.TTLDelay))
	}
	return t, nil
}

// ExpireNow deletes the items, in all tables with TTL enabled, whose TTL
// attribute has passed, and returns how many that were.
func (s *Server) ExpireNow() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.expireAll(s.opts.Clock())
}

func (s *Server) expireAll(now time.Time) int {
	n := 0
	for _, t := range s.tables {
		n += t.expire(now)
	}
	return n
}

// byName prepares an operation whose parameters begin with a table's name and
// that reports a missing table by name.
func (s *Server) byName(body []byte, p any, tableName **string, run func(*table) (any, error)) (operation, error) {
	if err := decode(body, p); err != nil {
		return operation{}, err
	}
	var c constraints
	name := c.tableName(*tableName, 1)
	return operation{run: func() (any, error) {
		if t := s.tables[name]; t != nil {
			return run(t)
		}
		return nil, errTableNotFound(name)
	}}, c.err()
}

type tableNameParam struct{ TableName *string }

func (s *Server) describeTable(body []byte) (operation, error) {
	var p tableNameParam
	return s.byName(body, &p, &p.TableName, func(t *table) (any, error) {
		return struct{ Table tableDescription }{t.describe()}, nil
	})
}

func (t *table) describe() tableDescription {
	d := t.description
	d.ItemCount, d.TableSizeBytes = t.totals()
	return d
}

func (s *Server) deleteTable(body []byte) (operation, error) {
	var p tableNameParam
	return s.byName(body, &p, &p.TableName, func(t *table) (any, error) {
		if t.description.DeletionProtectionEnabled {
			return nil, validationError("Resource cannot be deleted as it is currently protected against deletion. Disable deletion protection first.")
		}
		d := t.describe()
		d.TableStatus = "DELETING"
		delete(s.tables, d.TableName)
		return struct{ TableDescription tableDescription }{d}, nil
	})
}

func (s *Server) updateTable(body []byte) (operation, error) {
	var p struct {
		tableNameParam
		indexParams

		BillingMode               string
		ProvisionedThroughput     *provisionedThroughput
		DeletionProtectionEnabled *bool
		TableClass                string
	}
	return s.byName(body, &p, &p.TableName, func(t *table) (any, error) {
		var c constraints
		c.enum(p.BillingMode, "billingMode", "PROVISIONED", "PAY_PER_REQUEST")
		c.enum(p.TableClass, "tableClass", "STANDARD", "STANDARD_INFREQUENT_ACCESS")
		if err := errors.Join(c.err(), p.refuse()); err != nil {
			return nil, err
		}
		if p.ProvisionedThroughput != nil {
			t.description.ProvisionedThroughput = *p.ProvisionedThroughput
		}
		t.setBilling(p.BillingMode, epochSeconds(s.opts.Clock()))
		if p.DeletionProtectionEnabled != nil {
			t.description.DeletionProtectionEnabled = *p.DeletionProtectionEnabled
		}
		if p.TableClass != "" {
			t.description.TableClassSummary = &tableClassSummary{p.TableClass}
		}
		d := t.describe()
		d.TableStatus = "UPDATING"
		return struct{ TableDescription tableDescription }{d}, nil
	})
}

// maxListedTables is the most names that ListTables answers at once.
const maxListedTables = 100

func (s *Server) listTables(body []byte) (operation, error) {
	var p struct {
		ExclusiveStartTableName string
		Limit                   *int64
	}
	if err := decode(body, &p); err != nil {
		return operation{}, err
	}
	limit := int64(maxListedTables)
	var c constraints
	c.atLeast(p.Limit, 1, "limit")
	if p.Limit != nil {
		c.require(*p.Limit <= maxListedTables, quoted("limit"), "limit", "Member must have value less than or equal to 100")
		limit = *p.Limit
	}
	return operation{run: func() (any, error) {
		answer := struct {
			TableNames             []string
			LastEvaluatedTableName string `json:",omitzero"`
		}{TableNames: []string{}}
		for _, name := range sortedKeys(s.tables) {
			if name <= p.ExclusiveStartTableName {
				continue
			}
			if int64(len(answer.TableNames)) == limit {
				answer.LastEvaluatedTableName = answer.TableNames[limit-1]
				break
			}
			answer.TableNames = append(answer.TableNames, name)
		}
		return answer, nil
	}}, c.err()
}

// timeToLive is the TTL setting of a table.
type timeToLive struct {
	AttributeName string
	Enabled       bool
}

func (s *Server) updateTimeToLive(body []byte) (operation, error) {
	var p struct {
		tableNameParam

		TimeToLiveSpecification *timeToLive
	}
	return s.byName(body, &p, &p.TableName, func(t *table) (any, error) {
		var c constraints
		c.present(p.TimeToLiveSpecification != nil, "timeToLiveSpecification")
		if err := c.err(); err != nil {
			return nil, err
		}
		spec := *p.TimeToLiveSpecification
		switch {
		case spec.AttributeName == "":
			c.length(0, 1, maxTableName, "''", "timeToLiveSpecification.attributeName")
			return nil, c.err()
		case spec.Enabled && t.ttlName != "":
			return nil, validationError("TimeToLive is already enabled")
		case !spec.Enabled && t.ttlName == "":
			return nil, validationError("TimeToLive is already disabled")
		case !spec.Enabled && t.ttlName != spec.AttributeName:
			return nil, validationErrorf("TimeToLive is active on a different AttributeName: current AttributeName is %s", t.ttlName)
		case spec.Enabled:
			t.ttlName, t.expiredUntil = spec.AttributeName, 0
		default:
			t.ttlName = ""
		}
		return struct{ TimeToLiveSpecification timeToLive }{spec}, nil
	})
}

func (s *Server) describeTimeToLive(body []byte) (operation, error) {
	var p tableNameParam
	return s.byName(body, &p, &p.TableName, func(t *table) (any, error) {
		type description struct {
			TimeToLiveStatus string
			AttributeName    string `json:",omitzero"`
		}
		d := description{"DISABLED", t.ttlName}
		if t.ttlName != "" {
			d.TimeToLiveStatus = "ENABLED"
		}
		return struct{ TimeToLiveDescription description }{d}, nil
	})
}

type tagParams struct {
	ResourceArn string
	Tags        []tag
	TagKeys     []string
}

// byArn prepares an operation on the table with an ARN.
func (s *Server) byArn(body []byte, run func(*table, *tagParams) any) (operation, error) {
	var p tagParams
	if err := decode(body, &p); err != nil {
		return operation{}, err
	}
	_, name, found := strings.Cut(p.ResourceArn, ":table/")
	if !strings.HasPrefix(p.ResourceArn, "arn:") || !found {
		return operation{}, validationError("Invalid TableArn: Invalid ResourceArn provided as input " + p.ResourceArn)
	}
	return operation{run: func() (any, error) {
		if t := s.tables[name]; t != nil && t.description.TableArn == p.ResourceArn {
			return run(t, &p), nil
		}
		return nil, newError(codeResourceNotFound, "Requested resource not found: ResourcArn: "+p.ResourceArn+" not found")
	}}, nil
}

func (s *Server) tagResource(body []byte) (operation, error) {
	return s.byArn(body, func(t *table, p *tagParams) any {
		t.addTags(p.Tags)
		return struct{}{}
	})
}

func (s *Server) untagResource(body []byte) (operation, error) {
	return s.byArn(body, func(t *table, p *tagParams) any {
		for _, k := range p.TagKeys {
			delete(t.tags, k)
		}
		return struct{}{}
	})
}

func (s *Server) listTagsOfResource(body []byte) (operation, error) {
	return s.byArn(body, func(t *table, _ *tagParams) any {
		answer := struct{ Tags []tag }{Tags: []tag{}}
		for _, k := range sortedKeys(t.tags) {
			answer.Tags = append(answer.Tags, tag{k, t.tags[k]})
		}
		return answer
	})
}
