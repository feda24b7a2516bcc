package doctor

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/sluice-dev/sluice/shared/awserr"
)

// checkBucket asks whether the bucket exists and is reachable.
func (e *examination) checkBucket(ctx context.Context) Finding {
	out, err := e.objects.HeadBucket(ctx, &s3.HeadBucketInput{Bucket: &e.Bucket})
	response, answered := errors.AsType[*smithyhttp.ResponseError](err)
	switch {
	case err == nil:
		e.reachable = true
		e.readClock(awsmiddleware.GetRawResponse(out.ResultMetadata))
		if region := aws.ToString(out.BucketRegion); region != "" && region != e.Config.Region {
			return failed("give --region "+region, "%s is in %s, not in %s", e.Bucket, region, e.Config.Region)
		}
		return ok("%s", e.Bucket)
	case answered && response.HTTPStatusCode() == http.StatusMovedPermanently:
		region := response.Response.Header.Get("X-Amz-Bucket-Region")
		return failed("give --region "+region, "%s is in %s, not in %s", e.Bucket, region, e.Config.Region)
	case awserr.IsNotFound(err), awserr.IsNoSuchBucket(err):
		return failed("check its name, the account and the endpoint, or deploy a stack", "%s does not exist here", e.Bucket)
	case awserr.IsAccessDenied(err):
		return failed("use credentials of its account that may do s3:ListBucket, and check the name", "%s belongs to somebody else, or the credentials may not look at it", e.Bucket)
	}
	return failed("check the network and the endpoint (--endpoint-url, AWS_ENDPOINT_URL)", "%s", e.words(err))
}

// readClock compares this machine's clock with the Date of an answer.
func (e *examination) readClock(raw any) {
	response, isHTTP := raw.(*smithyhttp.Response)
	if !isHTTP {
		return
	}
	date, err := http.ParseTime(response.Header.Get("Date"))
	if err != nil {
		return
	}
	// The date was cut to its second.
	e.skew, e.dated = time.Until(date.Add(time.Second/2))*-1, true
}

// mostSkew is by how much a clock may differ: the Date of an answer has whole seconds, and
// the answer takes its time.
const mostSkew = 5 * time.Second

// checkClock compares clocks: the times in tasks, and the limiter's, come from callers.
func (e *examination) checkClock(context.Context) Finding {
	switch {
	case !e.dated:
		return notChecked("no answer of S3 tells the time")
	case e.skew.Abs() > mostSkew && e.skew > 0:
		return failed("set this machine's clock (NTP)", "this machine's clock is %s ahead of the service's", e.skew.Round(time.Second))
	case e.skew.Abs() > mostSkew:
		return failed("set this machine's clock (NTP)", "this machine's clock is %s behind the service's", e.skew.Abs().Round(time.Second))
	}
	return ok("within %s of the service's", mostSkew)
}

// checkVersioning asks for versions: a task's history consists of them, and removing an
// object by its version is what leaves no delete marker.
func (e *examination) checkVersioning(ctx context.Context) Finding {
	if !e.reachable {
		return notChecked(noBucket)
	}
	mend := "aws s3api put-bucket-versioning --bucket " + e.Bucket + " --versioning-configuration Status=Enabled"
	out, err := e.objects.GetBucketVersioning(ctx, &s3.GetBucketVersioningInput{Bucket: &e.Bucket})
	switch {
	case err != nil:
		return e.unable(err, "s3:GetBucketVersioning", mend)
	case out.Status == types.BucketVersioningStatusEnabled:
		return ok("enabled")
	case out.Status == types.BucketVersioningStatusSuspended:
		return failed(mend, "is suspended: histories are lost, and a submit can go unnoticed")
	}
	return failed(mend, "was never enabled: there are no histories, and a submit can go unnoticed")
}
