package dynamolimit

import (
	"context"
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/smithy-go/middleware"
	smithyhttp "github.com/aws/smithy-go/transport/http"
)

// farOff is how much the caller's clock may differ from the service's before it is
// corrected.
const farOff = time.Second

// A clock is the caller's, corrected by the service's when it is far off.
type clock struct {
	local   func() time.Time
	trusted bool // never corrected
	log     *slog.Logger
	offset  atomic.Int64 // added to the local time, in nanoseconds
}

func (c *clock) now() time.Time {
	return c.local().Add(time.Duration(c.offset.Load()))
}

// observe takes note of the Date header of an answer to a request that was sent and
// answered at these local times. It stands for one moment between them, cut to the
// second; so it says between which bounds the local clock is off.
func (c *clock) observe(sent, answered time.Time, date string) {
	d, err := http.ParseTime(date)
	if err != nil || c.trusted || answered.Before(sent) {
		return
	}
	offset := time.Duration(c.offset.Load())
	least, most := d.Sub(answered), d.Add(time.Second).Sub(sent)
	if least <= offset+farOff && offset-farOff <= most {
		return
	}
	offset = (least + most) / 2
	c.offset.Store(int64(offset))
	c.log.Warn("the clock differs from DynamoDB's and is corrected", "by", offset.String())
}

// once has the SDK send a request once, which is counted, and shows the clock the answer. Requests are
// sent again by the limiter itself, which knows what may have become of the first.
func (c *clock) once(o *dynamodb.Options) {
	o.Retryer = aws.NopRetryer{}
	o.APIOptions = append(o.APIOptions, func(stack *middleware.Stack) error {
		return stack.Deserialize.Add(middleware.DeserializeMiddlewareFunc("SluiceClock", c.watch), middleware.After)
	})
}

func (c *clock) watch(ctx context.Context, in middleware.DeserializeInput, next middleware.DeserializeHandler) (middleware.DeserializeOutput, middleware.Metadata, error) {
	count(ctx)
	sent := c.local()
	out, metadata, err := next.HandleDeserialize(ctx, in)
	if r, ok := out.RawResponse.(*smithyhttp.Response); ok && r != nil && r.Response != nil {
		c.observe(sent, c.local(), r.Header.Get("Date"))
	}
	return out, metadata, err
}
