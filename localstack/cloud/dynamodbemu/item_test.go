package dynamodbemu_test

import (
	"errors"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/sluice-dev/sluice/localstack/cloud/dynamodbemu"
)

func TestAnItemComesBackAsItWentIn(t *testing.T) {
	t.Parallel()
	b := setup(t, dynamodbemu.Options{})
	item := attrs{
		"p": str("k"), "n": num("12345678901234567890.123456789012345678"), "b": binary("\x00\xff"), "t": boolean(true),
		"z": null(), "ss": strSet("x", "y"), "ns": numSet("1", "2.5"), "l": list(num("1"), str("é"), list()),
		"bs": binSet("x", "\x00"), "m": dict(attrs{"a.b": dict(attrs{}), "empty": str("")}),
	}
	b.put(t, "items", item)
	wantItem(t, b.get(t, "items", key("k")), item)
}

func TestAFailedConditionReturnsTheItem(t *testing.T) {
	t.Parallel()
	b := setup(t, dynamodbemu.Options{})
	item := attrs{"p": str("k"), "n": num("5")}
	b.put(t, "items", item)
	_, err := b.UpdateItem(t.Context(), &dynamodb.UpdateItemInput{
		TableName: aws.String("items"), Key: key("k"), UpdateExpression: aws.String("SET n = n + :one"),
		ConditionExpression: aws.String("n > :five"), ExpressionAttributeValues: attrs{":one": num("1"), ":five": num("5")},
		ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
	})
	wantError(t, err, "ConditionalCheckFailedException", "The conditional request failed")
	var failed *types.ConditionalCheckFailedException
	if !errors.As(err, &failed) {
		t.Fatalf("got %v", err)
	}
	wantItem(t, failed.Item, item)
}
