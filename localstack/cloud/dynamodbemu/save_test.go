package dynamodbemu_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/sluice-dev/sluice/localstack/cloud/dynamodbemu"
)

func TestSavedTablesGoOnWhereTheyWere(t *testing.T) {
	t.Parallel()
	before := setup(t, dynamodbemu.Options{})
	full := attrs{
		"p": str("k|ü"), "n": num("123456789012345678901234567890.12345678"), "b": binary("\x00\xff"), "t": boolean(true), "z": null(),
		"l": list(num("1"), dict(attrs{"x": str("")})), "ns": numSet("1", "2.5"), "ss": strSet("a", "b"), "bs": binSet("\xfe"),
	}
	before.put(t, "items", full)
	for _, s := range []string{"10", "-3", "2"} {
		before.put(t, "sorted", attrs{"p": str("x"), "s": num(s)})
	}
	if _, err := before.UpdateTimeToLive(t.Context(), &dynamodb.UpdateTimeToLiveInput{
		TableName: aws.String("items"), TimeToLiveSpecification: &types.TimeToLiveSpecification{AttributeName: aws.String("ttl"), Enabled: aws.Bool(true)},
	}); err != nil {
		t.Fatal(err)
	}
	once := &dynamodb.TransactWriteItemsInput{
		ClientRequestToken: aws.String("once"),
		TransactItems: []types.TransactWriteItem{{Update: &types.Update{
			TableName: aws.String("items"), Key: key("counter"), UpdateExpression: aws.String("ADD n :one"), ExpressionAttributeValues: attrs{":one": num("1")},
		}}},
	}
	if _, err := before.TransactWriteItems(t.Context(), once); err != nil {
		t.Fatal(err)
	}
	var file bytes.Buffer
	if err := before.server.Save(&file); err != nil {
		t.Fatal(err)
	}

	b := setup(t, dynamodbemu.Options{})
	b.createTable(t, "later", "p", types.ScalarAttributeTypeS)
	if err := b.server.Load(&file); err != nil {
		t.Fatal(err)
	}
	wantItem(t, b.get(t, "items", attrs{"p": str("k|ü")}), full)
	if _, err := b.TransactWriteItems(t.Context(), once); err != nil {
		t.Fatal(err)
	}
	wantItem(t, b.get(t, "items", key("counter")), attrs{"p": str("counter"), "n": num("1")})
	sorted, err := b.Query(t.Context(), &dynamodb.QueryInput{
		TableName: aws.String("sorted"), KeyConditionExpression: aws.String("p = :p"), ExpressionAttributeValues: attrs{":p": str("x")},
	})
	if err != nil || len(sorted.Items) != 3 || show(sorted.Items[0]["s"]) != show(num("-3")) {
		t.Errorf("sorted: %v, %v", sorted, err)
	}
	ttl, err := b.DescribeTimeToLive(t.Context(), &dynamodb.DescribeTimeToLiveInput{TableName: aws.String("items")})
	if err != nil || *ttl.TimeToLiveDescription.AttributeName != "ttl" {
		t.Errorf("TTL: %v, %v", ttl, err)
	}
	_, err = b.DescribeTable(t.Context(), &dynamodb.DescribeTableInput{TableName: aws.String("later")})
	wantError(t, err, "ResourceNotFoundException", "")
}

func TestLoadRefusesWhatIsDamaged(t *testing.T) {
	t.Parallel()
	b := setup(t, dynamodbemu.Options{})
	b.put(t, "items", key("a"))
	for _, damaged := range []string{"", "{", "[]", `{"Tables":[{}]}`} {
		if err := b.server.Load(strings.NewReader(damaged)); err == nil {
			t.Errorf("%q was loaded", damaged)
		}
	}
	wantItem(t, b.get(t, "items", key("a")), key("a"))
}
