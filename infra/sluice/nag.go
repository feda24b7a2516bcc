package sluice

import (
	"fmt"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/constructs-go/constructs/v10"
)

// explain says in the template why what a rule of cdk-nag finds is meant to be so. It needs nothing of
// cdk-nag: for who does not use it this is a comment. A pattern confines it to findings of one kind.
func explain(construct constructs.Construct, rule, reason, pattern string) {
	resource, ok := construct.Node().DefaultChild().(awscdk.CfnResource)
	if !ok {
		panic(fmt.Sprintf("sluice: the default child of %s is not a resource", *construct.Node().Path()))
	}
	explanation := map[string]any{"id": rule, "reason": reason}
	if pattern != "" {
		explanation["applies_to"] = []any{map[string]any{"regex": pattern}}
	}
	resource.AddMetadata(new("cdk_nag"), map[string]any{"rules_to_suppress": []any{explanation}})
}

const (
	ownPatternsReason = "Tasks and wake-ups have names of their own each: the pattern ends in all objects below a prefix of the queue's bucket, " +
		"or all schedules of its group."
	ownPatterns = `/^Resource::arn:.*(:s3:::.*/(inbox|tasks|payloads|quarantine|sweep)|:schedule/[^/*]*)/\*$/`

	deadLettersReason = "It is a dead-letter queue."

	accessLogsReason = "Access logs are written to a bucket of yours if Props.AccessLogs names one; CloudTrail data events are the other way."
)
