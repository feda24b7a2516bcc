package doctor

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/smithy-go"
	"github.com/google/uuid"

	"github.com/sluice-dev/sluice/shared/awserr"
)

// ProbePrefix is where probe objects are for a moment.
const ProbePrefix = "doctor/"

const useS3 = "use Amazon S3, or a store that honours conditional writes"

// checkConditions tries whether conditional writes are honoured: everything that makes a task
// run once at a time rests on them, and a store that ignores them tells nobody.
func (e *examination) checkConditions(ctx context.Context) (f Finding) {
	if !e.reachable {
		return notChecked(noBucket)
	}
	p := &probe{examination: e, key: ProbePrefix + uuid.NewString()}
	defer func() {
		undo, cancel := context.WithTimeout(context.WithoutCancel(ctx), Patience)
		defer cancel()
		if err := p.remove(undo); err != nil {
			f = failed("delete all versions of the object "+p.key, "the probe object could not be removed: %s", e.words(err))
		}
	}()
	etag, err := p.put(ctx, "*", "")
	if err != nil {
		return e.unable(err, "s3:PutObject under "+ProbePrefix, useS3)
	}
	if _, err := p.put(ctx, "*", ""); !awserr.IsPreconditionFailed(err) {
		return e.ignored("If-None-Match: *", "an object that exists", err, "a task could be submitted twice under one id")
	}
	if _, err := p.put(ctx, "", `"00000000000000000000000000000000"`); !awserr.IsPreconditionFailed(err) {
		return e.ignored("If-Match", "an object with another ETag", err, "two workers could run a task at the same time")
	}
	if _, err := p.put(ctx, "", etag); err != nil {
		return failed(useS3, "a write with If-Match over the object of that ETag was refused: %s", e.words(err))
	}
	return ok("If-None-Match and If-Match are honoured")
}

// ignored is the finding of a conditional write that was not refused as it must be.
func (e *examination) ignored(condition, over string, err error, so string) Finding {
	if err == nil {
		return failed(useS3, "%s is ignored, a write over %s succeeded: %s", condition, over, so)
	}
	return failed(useS3, "a write with %s over %s was answered with %s, not with PreconditionFailed", condition, over, e.words(err))
}

// probe is an object that is written for the sake of the answers.
type probe struct {
	*examination

	key string
	// versions are those that were written, an empty one where the bucket has none.
	versions []string
	// unsure tells that the answer to a write was lost.
	unsure bool
}

func (p *probe) put(ctx context.Context, ifNoneMatch, ifMatch string) (etag string, err error) {
	in := &s3.PutObjectInput{Bucket: &p.Bucket, Key: &p.key, Body: strings.NewReader(fmt.Sprintf("probe %d", len(p.versions)))}
	if ifNoneMatch != "" {
		in.IfNoneMatch = &ifNoneMatch
	}
	if ifMatch != "" {
		in.IfMatch = &ifMatch
	}
	out, err := p.objects.PutObject(ctx, in)
	if err != nil {
		_, answered := errors.AsType[smithy.APIError](err)
		p.unsure = p.unsure || !answered
		return "", err
	}
	p.versions = append(p.versions, aws.ToString(out.VersionId))
	return aws.ToString(out.ETag), nil
}

// remove deletes every version, so that no delete marker stays behind. In a bucket whose
// versioning is suspended all of them are the one called null.
func (p *probe) remove(ctx context.Context) error {
	if p.unsure {
		out, err := p.objects.ListObjectVersions(ctx, &s3.ListObjectVersionsInput{Bucket: &p.Bucket, Prefix: &p.key})
		if err != nil {
			return err
		}
		p.versions = nil
		for _, v := range out.Versions {
			p.versions = append(p.versions, aws.ToString(v.VersionId))
		}
	}
	var errs []error
	for _, version := range p.versions {
		in := &s3.DeleteObjectInput{Bucket: &p.Bucket, Key: &p.key}
		if version != "" {
			in.VersionId = &version
		}
		if _, err := p.objects.DeleteObject(ctx, in); err != nil && !awserr.IsNotFound(err) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
