package cli

import (
	"encoding/json"
	"time"

	"github.com/sluice-dev/sluice/shared/queue"
	"github.com/sluice-dev/sluice/shared/task"
)

// submission is a task to submit, as flags or a line of a file describe it. What is nil
// or empty is left to the queue.
type submission struct {
	taskType string
	input    json.RawMessage

	id, key, scope string

	maxRetries, maxReschedules *int
	timeout                    *time.Duration
	delay, expiresIn           *time.Duration
	at, expiresAt              *time.Time

	tags   map[string]string
	limits []task.Limit
}

// check refuses what contradicts itself. Name words a field as the user wrote it.
func (s *submission) check(name func(field string) string) error {
	both := func(a, b, why string) error {
		return usagef("%s and %s are both given: %s, give one of them", name(a), name(b), why)
	}
	switch {
	case s.taskType == "":
		return usagef("%s is missing: it selects the handler", name("task_type"))
	case s.delay != nil && s.at != nil:
		return both("delay", "at", "each says when the task is due")
	case s.expiresIn != nil && s.expiresAt != nil:
		return both("expires_in", "expires_at", "each says when the task expires")
	case s.id != "" && s.key != "":
		return both("id", "idempotency_key", "the key derives the id")
	case s.scope != "" && s.key == "":
		return usagef("%s is given without %s: it says within which a key counts", name("scope"), name("idempotency_key"))
	case s.timeout != nil && (*s.timeout <= 0 || *s.timeout > task.MaxTimeoutSeconds*time.Second):
		return usagef("%s is %s: it must be longer than 0 and at most %ds, the most a Lambda invocation has to offer", name("timeout"), *s.timeout, task.MaxTimeoutSeconds)
	}
	return s.checkNames()
}

func (s *submission) checkNames() error {
	if err := task.ValidateType(s.taskType); err != nil {
		return usagef("%v", err)
	}
	if s.id == "" {
		return nil
	}
	return checkIDs([]string{s.id})
}

func (s *submission) options() []queue.Option {
	var options []queue.Option
	add := func(given bool, option func() queue.Option) {
		if given {
			options = append(options, option())
		}
	}
	add(s.id != "", func() queue.Option { return queue.ID(s.id) })
	add(s.key != "", func() queue.Option { return queue.IdempotencyKey(s.key) })
	add(s.scope != "", func() queue.Option { return queue.Scope(s.scope) })
	add(s.maxRetries != nil, func() queue.Option { return queue.MaxRetries(*s.maxRetries) })
	add(s.maxReschedules != nil, func() queue.Option { return queue.MaxReschedules(*s.maxReschedules) })
	add(s.timeout != nil, func() queue.Option { return queue.Timeout(*s.timeout) })
	add(s.delay != nil, func() queue.Option { return queue.In(*s.delay) })
	add(s.at != nil, func() queue.Option { return queue.At(*s.at) })
	add(s.expiresIn != nil, func() queue.Option { return queue.ExpiresIn(*s.expiresIn) })
	add(s.expiresAt != nil, func() queue.Option { return queue.ExpiresAt(*s.expiresAt) })
	for name, value := range s.tags {
		options = append(options, queue.Tag(name, value))
	}
	for _, l := range s.limits {
		options = append(options, queue.Limit(l.Policy, l.Key, l.Cost))
	}
	return options
}
