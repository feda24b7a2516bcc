package sweep

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"

	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/aws/aws-sdk-go-v2/service/lambda/types"
)

// Invoker is what the sweep asks of Lambda.
type Invoker interface {
	Invoke(context.Context, *lambda.InvokeInput, ...func(*lambda.Options)) (*lambda.InvokeOutput, error)
}

// batchEvent asks the claim function to look at tasks.
type batchEvent struct {
	TaskIDs []string `json:"task_ids"`
}

// s3Event asks the claim function to look at objects, whatever their keys: it
// is what S3 sends when they are created.
type s3Event struct {
	Records []s3Record `json:"Records"`
}

type s3Record struct {
	EventSource string   `json:"eventSource"`
	EventName   string   `json:"eventName"`
	S3          s3Entity `json:"s3"`
}

type s3Entity struct {
	Bucket struct {
		Name string `json:"name"`
	} `json:"bucket"`
	Object struct {
		Key string `json:"key"`
	} `json:"object"`
}

// keysPerEvent bounds the objects of one event: a key has up to 1,024 bytes,
// three times as many when it is encoded.
const keysPerEvent = 25

// redrive invokes the claim function for what was found.
func (r *run) redrive(ctx context.Context, findings []finding) error {
	var ids, keys []string
	for _, f := range findings {
		if f.entry.ID != "" {
			ids = append(ids, f.entry.ID)
		} else {
			keys = append(keys, f.entry.Key)
		}
	}
	for batch := range slices.Chunk(ids, r.BatchSize) {
		if err := r.invoke(ctx, batchEvent{TaskIDs: batch}); err != nil {
			return err
		}
	}
	for batch := range slices.Chunk(keys, min(r.BatchSize, keysPerEvent)) {
		if err := r.invoke(ctx, r.created(batch)); err != nil {
			return err
		}
	}
	for _, f := range findings {
		r.report.add(f, r.Now())
	}
	return nil
}

// created is the event of objects that were put into the inbox. S3 encodes
// keys in events as HTML forms do.
func (r *run) created(keys []string) s3Event {
	var event s3Event
	for _, key := range keys {
		record := s3Record{EventSource: "aws:s3", EventName: "ObjectCreated:Put"}
		record.S3.Bucket.Name = r.Store.Bucket()
		record.S3.Object.Key = url.QueryEscape(key)
		event.Records = append(event.Records, record)
	}
	return event
}

func (r *run) invoke(ctx context.Context, event any) error {
	payload, err := json.Marshal(event)
	if err != nil {
		return err
	}
	r.requests.Add(1)
	_, err = r.Lambda.Invoke(ctx, &lambda.InvokeInput{
		FunctionName: &r.ClaimFunction, InvocationType: types.InvocationTypeEvent, Payload: payload,
	})
	if err != nil {
		return fmt.Errorf("invoke the claim function %s: %w", r.ClaimFunction, err)
	}
	return nil
}
