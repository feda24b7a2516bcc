// Package s3store keeps tasks as objects of one versioned S3 bucket:
//
//	inbox/{shard}/{id}.json   the submission; its creation starts the claim function
//	tasks/{shard}/{id}.json   the record, created and replaced by conditional writes only
//	payloads/{id}/…           inputs and outputs too large for the record
//	quarantine/…              what was put under inbox/ and is no submission
//
// The claim function never writes under inbox/, so the system does not trigger
// itself, and inbox/ lists every live task.
package s3store

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/sluice-dev/sluice/shared/task"
)

// API is what the store asks of S3.
type API interface {
	PutObject(context.Context, *s3.PutObjectInput, ...func(*s3.Options)) (*s3.PutObjectOutput, error)
	GetObject(context.Context, *s3.GetObjectInput, ...func(*s3.Options)) (*s3.GetObjectOutput, error)
	DeleteObject(context.Context, *s3.DeleteObjectInput, ...func(*s3.Options)) (*s3.DeleteObjectOutput, error)
	DeleteObjects(context.Context, *s3.DeleteObjectsInput, ...func(*s3.Options)) (*s3.DeleteObjectsOutput, error)
	CopyObject(context.Context, *s3.CopyObjectInput, ...func(*s3.Options)) (*s3.CopyObjectOutput, error)
	ListObjectsV2(context.Context, *s3.ListObjectsV2Input, ...func(*s3.Options)) (*s3.ListObjectsV2Output, error)
	ListObjectVersions(context.Context, *s3.ListObjectVersionsInput, ...func(*s3.Options)) (*s3.ListObjectVersionsOutput, error)
	PutObjectTagging(context.Context, *s3.PutObjectTaggingInput, ...func(*s3.Options)) (*s3.PutObjectTaggingOutput, error)
}

// Store is one bucket of tasks. Use [New].
type Store struct {
	api    API
	bucket string
}

// New returns the store of a bucket.
func New(api API, bucket string) *Store { return &Store{api: api, bucket: bucket} }

// NewClient returns an S3 client as Sluice uses it. With a custom endpoint it
// addresses buckets by path and sends only the checksums that are required, which every
// S3-compatible store understands.
func NewClient(config aws.Config) *s3.Client {
	return s3.NewFromConfig(config, func(o *s3.Options) {
		if o.BaseEndpoint == nil {
			return
		}
		o.UsePathStyle = true
		o.RequestChecksumCalculation = aws.RequestChecksumCalculationWhenRequired
		o.ResponseChecksumValidation = aws.ResponseChecksumValidationWhenRequired
	})
}

// Bucket is the bucket's name.
func (s *Store) Bucket() string { return s.bucket }

// Errors of the store. A conditional write that lost is a [*ConflictError].
var (
	// ErrNotFound means that there is no such object.
	ErrNotFound = errors.New("not found")
	// ErrGone means that the record was deleted since it was read. It is not to
	// be made again.
	ErrGone = errors.New("the record was deleted")
	// ErrDamaged means that the record is there and can't be read. Trying again
	// does not help.
	ErrDamaged = errors.New("the record is damaged, or was written by a newer version")
	// ErrExists means that the id has been submitted already.
	ErrExists = errors.New("a task of this id exists")
)

// FinishedTag marks the objects of a task that has ended: lifecycle rules look
// for it, so that only finished tasks are ever removed.
const FinishedTag = "sluice-state=finished"

const (
	inboxPrefix      = "inbox/"
	tasksPrefix      = "tasks/"
	quarantinePrefix = "quarantine/"
	jsonSuffix       = ".json"
	contentType      = "application/json"
)

// InboxKey is the key under which a task is submitted.
func InboxKey(id string) string { return inboxPrefix + task.Shard(id) + "/" + id + jsonSuffix }

// TaskKey is the key of a task's record.
func TaskKey(id string) string { return tasksPrefix + task.Shard(id) + "/" + id + jsonSuffix }

// InboxID is the id that an inbox key names. Errors say what is wrong with a
// key that names none.
func InboxID(key string) (string, error) {
	name, ok := strings.CutPrefix(key, inboxPrefix)
	shard, file, hasShard := strings.Cut(name, "/")
	id, hasSuffix := strings.CutSuffix(file, jsonSuffix)
	if !ok || !hasShard || !hasSuffix {
		return "", fmt.Errorf("the key %q is not of the form %s{shard}/{id}%s", key, inboxPrefix, jsonSuffix)
	}
	if err := task.ValidateID(id); err != nil {
		return "", err
	}
	if want := task.Shard(id); shard != want {
		return "", fmt.Errorf("the key %q has the shard %q, the task id %s belongs to shard %s", key, shard, id, want)
	}
	return id, nil
}
