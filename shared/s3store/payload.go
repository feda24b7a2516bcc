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
	"github.com/google/uuid"

	"github.com/sluice-dev/sluice/shared/awserr"
	"github.com/sluice-dev/sluice/shared/task"
)

// InlineBytes is the size up to which inputs and outputs are kept in the
// record. Larger ones become objects of their own.
const InlineBytes = 128 << 10

// NewPayloadRef is the reference to a large input or output (the kind), to be written by
// [Store.PutPayload]. Every reference is to an object of its own: of two submissions with
// one id, the one that is refused must not touch the other one's input.
func NewPayloadRef(id, kind string, data []byte) *task.PayloadRef {
	sum := sha256.Sum256(data)
	hash := hex.EncodeToString(sum[:])
	return &task.PayloadRef{
		Key:    task.PayloadPrefix(id) + kind + "-" + uuid.NewString() + jsonSuffix,
		Size:   int64(len(data)),
		SHA256: hash,
	}
}

// PutPayload writes what a reference of [NewPayloadRef] refers to. The object
// is marked as that of a finished task, so that it expires when nothing comes to
// refer to it: a submission that is refused or never made, an outcome that is lost. An
// input is kept by [Store.KeepPayloads]; with an output the task is finished.
func (s *Store) PutPayload(ctx context.Context, ref *task.PayloadRef, data []byte) error {
	_, err := s.api.PutObject(ctx, &s3.PutObjectInput{
		Bucket: &s.bucket, Key: &ref.Key, Body: bytes.NewReader(data), ContentType: aws.String(contentType),
		Tagging: aws.String(FinishedTag),
	})
	if err != nil {
		return fmt.Errorf("write the payload %s: %w", ref.Key, s.explain(err))
	}
	return nil
}

// Payload reads what a reference points to and checks it against the
// reference's hash. [ErrNotFound] means that it is not there, or something else is.
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
		return nil, fmt.Errorf("the payload %s that the task refers to, what stands there has another SHA-256: %w", ref.Key, ErrNotFound)
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

// TagPayloads marks the input of a task that has ended, if it is an object of
// its own, so that it expires with the record. The output was written with the mark.
func (s *Store) TagPayloads(ctx context.Context, t task.Task) error {
	key, value, _ := strings.Cut(FinishedTag, "=")
	return s.tagInput(ctx, t, []types.Tag{{Key: &key, Value: &value}})
}

// KeepPayloads takes the mark off again: the task is alive.
func (s *Store) KeepPayloads(ctx context.Context, t task.Task) error {
	return s.tagInput(ctx, t, []types.Tag{})
}

// tagInput sets the tags of a task's input. That the object is gone is no error:
// there is nothing to keep, and a task that is to run says so when it reads it.
func (s *Store) tagInput(ctx context.Context, t task.Task, tags []types.Tag) error {
	if t.InputRef == nil {
		return nil
	}
	_, err := s.api.PutObjectTagging(ctx, &s3.PutObjectTaggingInput{
		Bucket: &s.bucket, Key: &t.InputRef.Key,
		Tagging: &types.Tagging{TagSet: tags},
	})
	if err != nil && !awserr.IsNotFound(err) && !awserr.IsDeleteMarker(err) {
		return fmt.Errorf("tag the payload %s: %w", t.InputRef.Key, s.explain(err))
	}
	return nil
}
