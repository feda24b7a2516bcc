package cli

import (
	"context"
	"time"
)

// testContext ends what hangs.
func testContext() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), time.Minute)
}
