package main

import (
	"encoding/json"
	"sync"
	"time"

	"github.com/sluice-dev/sluice/localstack/cloud"
)

// wakeups counts the wake-ups that Scheduler delivers, by the task.
type wakeups struct {
	mu     sync.Mutex
	byTask map[string]int
}

func countWakeups(c *cloud.Cloud) *wakeups {
	w := &wakeups{byTask: make(map[string]int)}
	c.SetDelivery(cloud.Wakeups, cloud.Delivery{Plan: w.deliver})
	return w
}

// deliver counts a wake-up, which is delivered once and at once.
func (w *wakeups) deliver(e cloud.Event) []time.Duration {
	var payload struct {
		TaskID string `json:"task_id"`
	}
	if err := json.Unmarshal(e.Payload, &payload); err == nil {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.byTask[payload.TaskID]++
	}
	return cloud.Once(e)
}

func (w *wakeups) of(id string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.byTask[id]
}
