package dynamodbemu

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"time"

	"github.com/go-json-experiment/json"
)

// saved is what of a Server outlives it: written with Item = item, and read with
// Item = wireItem, which is checked.
type saved[Item any] struct {
	Tables []savedTable[Item]
	// Tokens make transactions idempotent that are repeated after a restart.
	Tokens []savedToken
}

type savedTable[Item any] struct {
	Description tableDescription
	Tags        map[string]string
	TTLName     string
	Items       []Item
}

type savedToken struct {
	Token   string
	Actions string
	At      time.Time
}

// Save writes all tables and items, as of one moment, for a Load of later.
func (s *Server) Save(w io.Writer) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out saved[item]
	for _, name := range sortedKeys(s.tables) {
		t := s.tables[name]
		table := savedTable[item]{Description: t.description, Tags: t.tags, TTLName: t.ttlName}
		for it := range t.after(nil) {
			table.Items = append(table.Items, it)
		}
		out.Tables = append(out.Tables, table)
	}
	for _, u := range s.tokens.ordered {
		out.Tokens = append(out.Tokens, savedToken{u.token, u.actions, u.at})
	}
	if err := json.MarshalWrite(w, out); err != nil {
		return fmt.Errorf("save the tables of DynamoDB: %w", err)
	}
	return nil
}

// Load replaces all tables by what Save wrote.
func (s *Server) Load(r io.Reader) error {
	var in saved[wireItem]
	if err := json.UnmarshalRead(r, &in, json.RejectUnknownMembers(true)); err != nil {
		return fmt.Errorf("load the tables of DynamoDB: %w", err)
	}
	tables := make(map[string]*table)
	for _, from := range in.Tables {
		t, err := tableOf(from)
		if err != nil {
			return fmt.Errorf("load the table %s of DynamoDB: %w", from.Description.TableName, err)
		}
		tables[from.Description.TableName] = t
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tables, s.tokens = tables, tokens{}
	for _, t := range in.Tokens {
		s.tokens.remember(t.Token, t.Actions, t.At)
	}
	return nil
}

func tableOf(from savedTable[wireItem]) (*table, error) {
	if len(from.Description.KeySchema) == 0 {
		return nil, errors.New("it has no keys")
	}
	params := createTableParams{KeySchema: from.Description.KeySchema, AttributeDefinitions: from.Description.AttributeDefinitions}
	if err := params.checkKeySchema(); err != nil {
		return nil, err
	}
	t := &table{
		description: from.Description, tags: make(map[string]string), ttlName: from.TTLName,
		byKey: make(map[string]*partition),
	}
	maps.Copy(t.tags, from.Tags)
	keys := t.keyAttributesFrom(&params)
	if t.partition = keys[0]; len(keys) > 1 {
		t.sort = &keys[1]
	}
	for _, wire := range from.Items {
		it, err := wire.item()
		if err == nil {
			err = t.checkItem(it)
		}
		if err != nil {
			return nil, err
		}
		t.put(it)
	}
	return t, nil
}
