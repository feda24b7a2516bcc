package sluice

import (
	"time"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
	"github.com/aws/aws-cdk-go/awscdk/v2/awss3"
	"github.com/aws/jsii-runtime-go"
)

const (
	// The terminal write of a task tags its record and its payloads with this. Retention looks for the
	// tag and for nothing else, so a task that sleeps for years is never removed.
	finishedTagKey   = "sluice-state"
	finishedTagValue = "finished"

	// keptVersions is how many of the newest old versions of a record outlive the retention: the history
	// of a task that sleeps for years. 100 is the most that S3 allows.
	keptVersions = 100
)

func (q *Queue) addBucket(props Props) {
	var accessLogsPrefix *string
	if props.AccessLogs != nil {
		accessLogsPrefix = jsii.String(props.Name + "/")
	}
	q.Bucket = awss3.NewBucket(q, jsii.String("Bucket"), &awss3.BucketProps{
		BucketName:        &q.names.bucket,
		Versioned:         jsii.Bool(true),
		Encryption:        awss3.BucketEncryption_S3_MANAGED,
		BlockPublicAccess: awss3.BlockPublicAccess_BLOCK_ALL(),
		ObjectOwnership:   awss3.ObjectOwnership_BUCKET_OWNER_ENFORCED,
		EnforceSSL:        jsii.Bool(true),
		MinimumTLSVersion: jsii.Number(1.2),
		RemovalPolicy:     props.removalPolicy(),
		LifecycleRules:    lifecycle(props),

		ServerAccessLogsBucket: props.AccessLogs,
		ServerAccessLogsPrefix: accessLogsPrefix,
	})
	if props.AccessLogs == nil {
		explain(q.Bucket, "AwsSolutions-S1", accessLogsReason, "")
	}
	q.startClaimOnSubmit()
}

// startClaimOnSubmit lets S3 start the claim function for each object created below inbox/. It sets the
// bucket's own NotificationConfiguration. AddEventNotification would deploy a custom resource instead,
// a Python function whose role may rewrite the notifications of every bucket of the account.
func (q *Queue) startClaimOnSubmit() {
	// S3 tries the permission when the notification is set: it must be there before the bucket. Account
	// and bucket are both named, so that no bucket of another account, nor one of this name that somebody
	// else created after a teardown, can start the function.
	permission := awslambda.NewCfnPermission(q, jsii.String("BucketMayInvokeClaim"), &awslambda.CfnPermissionProps{
		Action:        jsii.String("lambda:InvokeFunction"),
		FunctionName:  q.Claim.FunctionArn(),
		Principal:     jsii.String("s3.amazonaws.com"),
		SourceAccount: awscdk.Stack_Of(q).Account(),
		SourceArn:     &q.names.bucketArn,
	})

	bucket, ok := q.Bucket.Node().DefaultChild().(awss3.CfnBucket)
	if !ok {
		panic("sluice: the bucket's default child is not a CfnBucket")
	}
	bucket.SetNotificationConfiguration(&awss3.CfnBucket_NotificationConfigurationProperty{
		LambdaConfigurations: []any{
			&awss3.CfnBucket_LambdaConfigurationProperty{
				Event:    jsii.String("s3:ObjectCreated:*"),
				Function: q.Claim.FunctionArn(),
				Filter: &awss3.CfnBucket_NotificationFilterProperty{
					S3Key: &awss3.CfnBucket_S3KeyFilterProperty{
						Rules: []any{
							&awss3.CfnBucket_FilterRuleProperty{Name: jsii.String("prefix"), Value: jsii.String(inboxPrefix)},
						},
					},
				},
			},
		},
	})
	bucket.Node().AddDependency(permission)
}

// lifecycle removes what is finished, and what nothing refers to any more.
func lifecycle(props Props) *[]*awss3.LifecycleRule {
	finished := &map[string]any{finishedTagKey: finishedTagValue}

	return &[]*awss3.LifecycleRule{
		{
			Id:         jsii.String("finished-tasks"),
			Prefix:     jsii.String(tasksPrefix),
			TagFilters: finished,
			Expiration: days(props.Retention),
		},
		{
			// The history. Records are rewritten by every transition, so each old version is one line of it. When
			// the rule above has expired a record, the sweep function removes the versions that this one keeps.
			Id:                          jsii.String("old-versions-of-records"),
			Prefix:                      jsii.String(tasksPrefix),
			NoncurrentVersionExpiration: days(props.Retention),
			NoncurrentVersionsToRetain:  jsii.Number(keptVersions),
		},
		{
			Id:         jsii.String("payloads-of-finished-tasks"),
			Prefix:     jsii.String(payloadsPrefix),
			TagFilters: finished,
			Expiration: days(props.Retention),
		},
		{
			// Payloads are written once: an old version is one that the rule above has expired.
			Id:                          jsii.String("old-versions-of-payloads"),
			Prefix:                      jsii.String(payloadsPrefix),
			NoncurrentVersionExpiration: days(day),
		},
		{
			// A submission is deleted by version when its task is finished. What stays behind was written
			// over: by a replay, by a repeated submit, by junk. The live submission is the current version.
			Id:                          jsii.String("old-versions-of-submissions"),
			Prefix:                      jsii.String(inboxPrefix),
			NoncurrentVersionExpiration: days(props.Retention),
		},
		{
			Id:                          jsii.String("quarantine"),
			Prefix:                      jsii.String(quarantinePrefix),
			Expiration:                  days(props.QuarantineRetention),
			NoncurrentVersionExpiration: days(day),
		},
		{
			// How far the sweep came is written over by each of its runs.
			Id:                          jsii.String("old-versions-of-the-sweep"),
			Prefix:                      jsii.String(sweepPrefix),
			NoncurrentVersionExpiration: days(day),
		},
		{
			Id:                                  jsii.String("unfinished-uploads"),
			AbortIncompleteMultipartUploadAfter: days(day),
		},
		{
			// A delete marker under which no version is left hides nothing, and slows listings down.
			Id:                        jsii.String("bare-delete-markers"),
			ExpiredObjectDeleteMarker: jsii.Bool(true),
		},
	}
}

func days(d time.Duration) awscdk.Duration {
	return awscdk.Duration_Days(jsii.Number(float64(d / day)))
}

// removalPolicy is what becomes of stateful resources when the stack is destroyed.
func (p Props) removalPolicy() awscdk.RemovalPolicy {
	if p.Ephemeral {
		return awscdk.RemovalPolicy_DESTROY
	}

	return awscdk.RemovalPolicy_RETAIN
}
