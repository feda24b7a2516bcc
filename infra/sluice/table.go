package sluice

import (
	"github.com/aws/aws-cdk-go/awscdk/v2/awsdynamodb"
	"github.com/aws/jsii-runtime-go"
)

// addTable adds the table of the limiter: one partition holds the registry of policies, every other item
// the state of one key. It is read and written by key only, so it needs no index.
func (q *Queue) addTable(props Props) {
	q.Table = awsdynamodb.NewTable(q, jsii.String("Table"), &awsdynamodb.TableProps{
		TableName:    &q.names.table,
		PartitionKey: &awsdynamodb.Attribute{Name: jsii.String("pk"), Type: awsdynamodb.AttributeType_STRING},
		SortKey:      &awsdynamodb.Attribute{Name: jsii.String("sk"), Type: awsdynamodb.AttributeType_STRING},
		BillingMode:  awsdynamodb.BillingMode_PAY_PER_REQUEST,
		// An item expires once it is as good as one that was never written. DynamoDB is days late with
		// it, and nothing depends on when it is.
		TimeToLiveAttribute: jsii.String("ttl"),
		// Encrypted with a key that DynamoDB owns, which costs nothing and needs no rights. Said here, since
		// it is not to be changed by a default.
		Encryption: awsdynamodb.TableEncryption_DEFAULT,
		// The registry holds what operators have overridden, which no deployment could bring back.
		PointInTimeRecoverySpecification: &awsdynamodb.PointInTimeRecoverySpecification{
			PointInTimeRecoveryEnabled: jsii.Bool(true),
		},
		DeletionProtection: jsii.Bool(!props.Ephemeral),
		RemovalPolicy:      props.removalPolicy(),
	})
}
