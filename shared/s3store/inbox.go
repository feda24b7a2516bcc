package s3store

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/sluice-dev/sluice/shared/awserr"
	"github.com/sluice-dev/sluice/shared/task"
)

// Submission is an inbox object as it was read.
type Submission struct {
	Key       string
	VersionID string
	// Task is what was submitted. It is valid only if Problem is nil.
	Task task.Task
	// Problem says why the object is no valid submission.
	Problem error
}

// Submit puts a task into the inbox: the one request that a submit is. It returns the
// version it wrote, and [ErrExists] when the id is in the inbox already.
func (s *Store) Submit(ctx context.Context, t task.Task) (version string, err error) {
	version, err = s.putInbox(ctx, t, aws.String("*"))
	for try := 0; awserr.IsConflict(err) && try < 5; try++ {
		if err = pause(ctx, try); err == nil {
			version, err = s.putInbox(ctx, t, aws.String("*"))
		}
	}
	switch {
	case awserr.IsPreconditionFailed(err):
		return "", fmt.Errorf("submit task %s: %w", t.ID, ErrExists)
	case err != nil:
		return "", fmt.Errorf("submit task %s: %w", t.ID, s.explain(err))
	}
	return version, nil
}

// Resubmit puts a task into the inbox whatever stands there: a replay.
func (s *Store) Resubmit(ctx context.Context, t task.Task) (version string, err error) {
	version, err = s.putInbox(ctx, t, nil)
	if err != nil {
		return "", fmt.Errorf("submit task %s again: %w", t.ID, s.explain(err))
	}
	return version, nil
}

func (s *Store) putInbox(ctx context.Context, t task.Task, ifNoneMatch *string) (string, error) {
	out, err := s.api.PutObject(ctx, &s3.PutObjectInput{
		Bucket:      &s.bucket,
		Key:         aws.String(InboxKey(t.ID)),
		Body:        bytes.NewReader(t.EncodeSubmission()),
		ContentType: aws.String(contentType),
		IfNoneMatch: ifNoneMatch,
	})
	if err != nil {
		return "", err
	}
	return aws.ToString(out.VersionId), nil
}

// Submitted reads the inbox object of a task. [ErrNotFound] means that there is
// none. An object that is no valid submission comes with its Problem.
func (s *Store) Submitted(ctx context.Context, id string) (Submission, error) {
	return s.SubmittedAt(ctx, InboxKey(id))
}

// SubmittedAt reads the inbox object of a key, which need not name a task.
func (s *Store) SubmittedAt(ctx context.Context, key string) (Submission, error) {
	out, err := s.api.GetObject(ctx, &s3.GetObjectInput{Bucket: &s.bucket, Key: &key})
	if err != nil {
		return Submission{}, s.readError(err, "read %s", key)
	}
	sub := Submission{Key: key, VersionID: aws.ToString(out.VersionId)}
	defer func() { _ = out.Body.Close() }() // all of it was read, or none is wanted
	id, problem := InboxID(key)
	if problem != nil {
		sub.Problem = problem
		return sub, nil
	}
	if size := aws.ToInt64(out.ContentLength); size > task.MaxDocumentBytes {
		sub.Problem = fmt.Errorf("it has %d bytes, a submission has at most %d: keep a large input under payloads/ and name it in input_ref", size, task.MaxDocumentBytes)
		return sub, nil
	}
	data, err := readAll(out.Body)
	if err != nil {
		return Submission{}, fmt.Errorf("read %s: %w", key, err)
	}
	sub.Task, sub.Problem = task.DecodeSubmission(data, id, aws.ToTime(out.LastModified))
	sub.Task.InboxVersion = sub.VersionID
	return sub, nil
}

// Remove deletes one version of a task's inbox object. It leaves no delete
// marker, and it is no error if the version is gone already.
func (s *Store) Remove(ctx context.Context, id, version string) error {
	return s.removeAt(ctx, InboxKey(id), version)
}

func (s *Store) removeAt(ctx context.Context, key, version string) error {
	in := &s3.DeleteObjectInput{Bucket: &s.bucket, Key: &key}
	if version != "" {
		in.VersionId = &version
	}
	_, err := s.api.DeleteObject(ctx, in)
	if err != nil && !awserr.IsNotFound(err) {
		return fmt.Errorf("remove %s: %w", key, s.explain(err))
	}
	return nil
}

// Quarantine sets an inbox object aside that is no submission: its content is
// copied under quarantine/ with the reason in the object's metadata, then that version
// leaves the inbox. Repeating it changes nothing.
func (s *Store) Quarantine(ctx context.Context, sub Submission) error {
	source := s.bucket + "/" + url.PathEscape(sub.Key)
	if sub.VersionID != "" {
		source += "?versionId=" + url.QueryEscape(sub.VersionID)
	}
	_, err := s.api.CopyObject(ctx, &s3.CopyObjectInput{
		Bucket:            &s.bucket,
		Key:               aws.String(QuarantineKey(sub.Key, sub.VersionID)),
		CopySource:        &source,
		MetadataDirective: types.MetadataDirectiveReplace,
		TaggingDirective:  types.TaggingDirectiveReplace, // copying tags would need rights of its own
		Metadata:          map[string]string{"sluice-reason": asciiReason(sub.Problem), "sluice-key": strings.Trim(strconv.QuoteToASCII(sub.Key), `"`)},
	})
	if err != nil && !awserr.IsNotFound(err) {
		return fmt.Errorf("set %s aside: %w", sub.Key, s.explain(err))
	}
	return s.removeAt(ctx, sub.Key, sub.VersionID)
}

// QuarantineKey is where a version of an inbox object is set aside.
func QuarantineKey(key, version string) string {
	const longest = 700
	name := strings.TrimPrefix(key, inboxPrefix)
	if len(name) > longest {
		sum := sha256.Sum256([]byte(name))
		name = strings.ToValidUTF8(name[:longest], "") + "~" + hex.EncodeToString(sum[:8])
	}
	if version == "" {
		version = "null"
	}
	return quarantinePrefix + name + "/" + version
}

// asciiReason fits an error into a metadata header: ASCII, under 1 KB.
func asciiReason(err error) string {
	const longest = 1000
	text := strings.Trim(strconv.QuoteToASCII(err.Error()), `"`)
	return text[:min(len(text), longest)]
}

// Find reads a task wherever it stands: its record, else its submission. It
// looks for the record once more when neither is there, since a task may move from the one
// to the other between two reads. [ErrNotFound] means that there is no such task.
func (s *Store) Find(ctx context.Context, id string) (Record, error) {
	rec, err := s.Record(ctx, id)
	if !errors.Is(err, ErrNotFound) {
		return rec, err
	}
	sub, err := s.Submitted(ctx, id)
	switch {
	case errors.Is(err, ErrNotFound):
		return s.Record(ctx, id)
	case err != nil:
		return Record{}, err
	case sub.Problem != nil:
		return Record{}, fmt.Errorf("%s is no valid submission and will be set aside: %w", sub.Key, sub.Problem)
	}
	return Record{Task: sub.Task}, nil
}

// ListInbox lists the live tasks of a shard, at most limit (up to 1,000), in the order of their
// keys from behind the name after (empty: from the start), see [Name]. Keys that name no task are
// left out.
func (s *Store) ListInbox(ctx context.Context, shard, after string, limit int) (page Page, err error) {
	return s.list(ctx, inboxPrefix, shard, after, limit)
}

// ListRecords lists the records of a shard as [Store.ListInbox] does.
func (s *Store) ListRecords(ctx context.Context, shard, after string, limit int) (page Page, err error) {
	return s.list(ctx, tasksPrefix, shard, after, limit)
}

// Name is the last part of a task's keys. Listings are in the order of names, which is not quite that
// of ids: "a-b" comes before "a".
func Name(id string) string { return id + jsonSuffix }

// Page is one page of a listing.
type Page struct {
	Items []Item
	// More says that the listing goes on behind the last key.
	More bool
	// Last is the name up to which the page reaches: to be given as after for the next
	// one.
	Last string
}

// Item is a listed task.
type Item struct {
	ID string
	// ModifiedAt is when the object was written.
	ModifiedAt time.Time
}

func (s *Store) list(ctx context.Context, area, shard, after string, limit int) (Page, error) {
	prefix := area + shard + "/"
	if after != "" {
		after = prefix + after
	}
	out, err := s.listKeys(ctx, prefix, after, limit)
	if err != nil {
		return Page{}, err
	}
	page := Page{More: out.More}
	for _, object := range out.Entries {
		name := strings.TrimPrefix(object.Key, prefix)
		page.Last = name
		id, hasSuffix := strings.CutSuffix(name, jsonSuffix)
		if hasSuffix && task.ValidateID(id) == nil && task.Shard(id) == shard {
			page.Items = append(page.Items, Item{ID: id, ModifiedAt: object.ModifiedAt})
		}
	}
	return page, nil
}
