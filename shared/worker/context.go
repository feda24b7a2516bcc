package worker

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/sluice-dev/sluice/shared/task"
)

type taskKey struct{}

// TaskFrom gives the task that the handler runs for, as it was claimed: its
// ID, the number of the attempt, the tags. False outside a handler.
func TaskFrom(ctx context.Context) (task.Task, bool) {
	t, ok := ctx.Value(taskKey{}).(task.Task)
	return t, ok
}

func withTask(ctx context.Context, t task.Task) context.Context {
	return context.WithValue(ctx, taskKey{}, t)
}

// LoadCheckpoint decodes what the handler saved with [Checkpoint] when the
// task last went to sleep. False if it saved nothing yet.
func LoadCheckpoint(ctx context.Context, into any) (bool, error) {
	t, ok := TaskFrom(ctx)
	if !ok || len(t.Checkpoint) == 0 {
		return false, nil
	}
	if err := json.Unmarshal(t.Checkpoint, into); err != nil {
		return false, fmt.Errorf("the checkpoint of task %s does not fit %T: %w", t.ID, into, err)
	}
	return true, nil
}
