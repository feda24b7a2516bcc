package s3store

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/sluice-dev/sluice/shared/task"
)

// InlineBytes is the size up to which inputs and outputs are kept in the
// record. Larger ones become objects of their own.
const InlineBytes = 128 << 10

// NewPayloadRef is the reference to a large input or output (the kind), to be written by
// [Store.PutPayload]. The name holds the content's hash, so that writing it again changes nothing.
func NewPayloadRef(id, kind string, data []byte) *task.PayloadRef {
	sum := sha256.Sum256(data)
	hash := hex.EncodeToString(sum[:])
	return &task.PayloadRef{
		Key:    task.PayloadPrefix(id) + kind + "-" + hash[:16] + jsonSuffix,
		Size:   int64(len(data)),
		SHA256: hash,
	}
}

// PutPayload keeps a large input or output (the kind) as an object of its own.
func (s *Store) PutPayload(ctx context.Context, id, kind string, data []byte) (*task.PayloadRef, error) {
	ref := NewPayloadRef(id, kind, data)
	_, err := s.api.PutObject(ctx, &s3.PutObjectInput{
		Bucket: &s.bucket, Key: &ref.Key, Body: bytes.NewReader(data), ContentType: aws.String(contentType),
	})
	if err != nil {
		return nil, fmt.Errorf("write the %s of task %s: %w", kind, id, s.explain(err))
	}
	return ref, nil
}

// Payload reads what a reference points to and checks it against the
// reference's hash.
func (s *Store) Payload(ctx context.Context, ref *task.PayloadRef) (json.RawMessage, error) {
	out, err := s.api.GetObject(ctx, &s3.GetObjectInput{Bucket: &s.bucket, Key: &ref.Key})
	if err != nil {
		return nil, s.readError(err, "read the payload %s", ref.Key)
	}
	data, err := readAll(out.Body)
	if err != nil {
		return nil, fmt.Errorf("read the payload %s: %w", ref.Key, err)
	}
	if sum := sha256.Sum256(data); ref.SHA256 != "" && hex.EncodeToString(sum[:]) != ref.SHA256 {
		return nil, fmt.Errorf("the payload %s is not what the task refers to: its SHA-256 differs", ref.Key)
	}
	return data, nil
}

// Resolve returns the task with its input and output in place of references.
func (s *Store) Resolve(ctx context.Context, t task.Task) (task.Task, error) {
	var err error
	if t.InputRef != nil {
		if t.Input, err = s.Payload(ctx, t.InputRef); err != nil {
			return t, err
		}
		t.InputRef = nil
	}
	if t.OutputRef != nil {
		if t.Output, err = s.Payload(ctx, t.OutputRef); err != nil {
			return t, err
		}
		t.OutputRef = nil
	}
	return t, nil
}

// TagPayloads marks the payloads of a task that has ended, so that they expire
// with its record.
func (s *Store) TagPayloads(ctx context.Context, t task.Task) error {
	key, value, _ := strings.Cut(FinishedTag, "=")
	return s.setPayloadTags(ctx, t, []types.Tag{{Key: &key, Value: &value}})
}

// UntagPayloads takes the mark off again: the task is to run anew.
func (s *Store) UntagPayloads(ctx context.Context, t task.Task) error {
	return s.setPayloadTags(ctx, t, []types.Tag{})
}

func (s *Store) setPayloadTags(ctx context.Context, t task.Task, tags []types.Tag) error {
	for _, ref := range []*task.PayloadRef{t.InputRef, t.OutputRef} {
		if ref == nil {
			continue
		}
		_, err := s.api.PutObjectTagging(ctx, &s3.PutObjectTaggingInput{
			Bucket: &s.bucket, Key: &ref.Key,
			Tagging: &types.Tagging{TagSet: tags},
		})
		if err != nil {
			return fmt.Errorf("tag the payload %s: %w", ref.Key, s.explain(err))
		}
	}
	return nil
}
