package sqsemu

import (
	"encoding/json"
	"fmt"
	"io"
	"time"
)

// savedQueue is what of a queue outlives its server.
type savedQueue struct {
	Name       string
	Created    time.Time
	Attributes map[string]string
	Messages   []savedMessage
}

type savedMessage struct {
	Message

	Visible  time.Time
	Receipt  string
	Received int
	First    time.Time
}

// Save writes all queues and their messages for a [Server.Load] of later.
func (s *Server) Save(w io.Writer) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := []savedQueue{}
	for _, q := range s.queues {
		saved := savedQueue{Name: q.name, Created: q.created, Attributes: q.attributes}
		for _, m := range q.messages {
			saved.Messages = append(saved.Messages, savedMessage{m.Message, m.visible, m.receipt, m.received, m.first})
		}
		out = append(out, saved)
	}
	if err := json.NewEncoder(w).Encode(out); err != nil {
		return fmt.Errorf("save the queues of SQS: %w", err)
	}
	return nil
}

// Load replaces all queues by what [Server.Save] wrote. Messages that were in
// flight become visible when they would have.
func (s *Server) Load(r io.Reader) error {
	var in []savedQueue
	if err := json.NewDecoder(r).Decode(&in); err != nil {
		return fmt.Errorf("load the queues of SQS: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.queues)
	for _, saved := range in {
		q := &queue{name: saved.Name, created: saved.Created, attributes: map[string]string{}, changed: make(chan struct{})}
		if err := q.setAttributes(saved.Attributes); err != nil {
			return fmt.Errorf("load the queue %s of SQS: %w", saved.Name, err)
		}
		for _, m := range saved.Messages {
			q.messages = append(q.messages, &message{m.Message, m.Visible, m.Receipt, m.Received, m.First})
		}
		s.queues[q.name] = q
	}
	return nil
}
