package sluice

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsiam"
	"github.com/aws/aws-cdk-go/awscdk/v2/awssqs"
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"
)

// noticeURLs tell a claim function where to send its notices, as a JSON object. Every claim function may
// end tasks of any type: one that expires ends where it is found.
func noticeURLs(queues map[string]awssqs.IQueue) string {
	urls := make(map[string]string, len(queues))
	for taskType, queue := range queues {
		urls[taskType] = *queue.QueueUrl()
	}
	text, err := json.Marshal(urls)
	if err != nil {
		panic(fmt.Errorf("sluice: the queues of notices: %w", err))
	}

	return string(text)
}

// sendNotices are the rights to send messages to the queues, and to have them encrypted with the keys of
// those that have one.
func sendNotices(queues map[string]awssqs.IQueue) []awsiam.PolicyStatement {
	var arns, keys []string
	for _, taskType := range slices.Sorted(maps.Keys(queues)) {
		queue := queues[taskType]
		if arn := *queue.QueueArn(); !slices.Contains(arns, arn) {
			arns = append(arns, arn)
			if key := queue.EncryptionMasterKey(); key != nil {
				keys = append(keys, *key.KeyArn())
			}
		}
	}
	rights := []awsiam.PolicyStatement{allow("SendNotices", []string{"sqs:SendMessage"}, arns...)}
	if len(keys) > 0 {
		rights = append(rights, allow("EncryptNotices", []string{"kms:GenerateDataKey", "kms:Decrypt"}, keys...))
	}

	return rights
}

// noticesFromContext reads queues for notices such as send_mail=ARN,*=ARN.
func noticesFromContext(scope constructs.Construct, value string) (map[string]awssqs.IQueue, error) {
	queues := make(map[string]awssqs.IQueue)
	byArn := make(map[string]awssqs.IQueue)
	for pair := range strings.SplitSeq(value, ",") {
		taskType, arn, _ := strings.Cut(strings.TrimSpace(pair), "=")
		if taskType == "" || !strings.HasPrefix(arn, "arn:") || len(strings.Split(arn, ":")) != partsOfQueueArn {
			return nil, errors.New("want TYPE=ARN, with the ARN of a queue of SQS; several separated by commas, and * for all other types")
		}
		queue, made := byArn[arn]
		if !made {
			props := &awssqs.QueueAttributes{QueueArn: &arn}
			queue = awssqs.Queue_FromQueueAttributes(scope, jsii.String(fmt.Sprintf("Notices%d", len(byArn))), props)
			byArn[arn] = queue
		}
		queues[taskType] = queue
	}

	return queues, nil
}

// partsOfQueueArn are arn, partition, service, Region, account and name.
const partsOfQueueArn = 6

// validateNotices checks that each entry can be sent to. A queue of another Region can't.
func (p *Props) validateNotices(scope constructs.Construct, refuse func(field, format string, arguments ...any)) {
	region := *awscdk.Stack_Of(scope).Region()
	for _, taskType := range slices.Sorted(maps.Keys(p.Notices)) {
		queue := p.Notices[taskType]
		field := fmt.Sprintf("Notices[%q]", taskType)
		switch {
		case taskType == "":
			refuse(field, "of no use: want a task type, or %q for all that are not named", otherTypes)
		case queue == nil:
			refuse(field, "nil: want a queue")
		case differ(region, *queue.Env().Region):
			refuse(field, "in the Region %s: want a queue of this stack's, %s", *queue.Env().Region, region)
		}
	}
}

// differ tells whether two values differ for sure: each may be known at deployment only.
func differ(a, b string) bool {
	return a != b && !*awscdk.Token_IsUnresolved(a) && !*awscdk.Token_IsUnresolved(b)
}
