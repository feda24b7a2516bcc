package dynamodbemu_test

import (
	"strconv"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/sluice-dev/sluice/localstack/cloud/dynamodbemu"
)

func putRequest(item attrs) types.WriteRequest {
	return types.WriteRequest{PutRequest: &types.PutRequest{Item: item}}
}

func deleteRequest(k attrs) types.WriteRequest {
	return types.WriteRequest{DeleteRequest: &types.DeleteRequest{Key: k}}
}

func TestBatchWrite(t *testing.T) {
	t.Parallel()
	b := setup(t, dynamodbemu.Options{})
	b.put(t, "items", key("old"))
	out, err := b.BatchWriteItem(t.Context(), &dynamodb.BatchWriteItemInput{
		RequestItems: map[string][]types.WriteRequest{
			"items":  {putRequest(with(key("new"), attrs{"x": str(strings.Repeat("x", 1500))})), deleteRequest(key("old"))},
			"sorted": {putRequest(attrs{"p": str("a"), "s": num("1")})},
		},
		ReturnConsumedCapacity: types.ReturnConsumedCapacityTotal,
	})
	if err != nil || len(out.UnprocessedItems) != 0 {
		t.Fatalf("got %v, %v", out, err)
	}
	if len(out.ConsumedCapacity) != 2 || aws.ToFloat64(out.ConsumedCapacity[0].CapacityUnits) != 3 {
		t.Errorf("got %v", out.ConsumedCapacity)
	}
	if b.get(t, "items", key("old")) != nil || b.get(t, "items", key("new")) == nil || b.get(t, "sorted", attrs{"p": str("a"), "s": num("1")}) == nil {
		t.Error("not everything was written")
	}
}

func TestBatchWritesThatAreRefused(t *testing.T) {
	t.Parallel()
	b := setup(t, dynamodbemu.Options{})
	var many []types.WriteRequest
	for i := range 26 {
		many = append(many, putRequest(key(strconv.Itoa(i))))
	}
	for name, tt := range map[string]struct {
		items   map[string][]types.WriteRequest
		message string
	}{
		"none":      {map[string][]types.WriteRequest{}, "1 validation error detected: Value '{}' at 'requestItems' failed to satisfy constraint: Member must have length greater than or equal to 1"},
		"26":        {map[string][]types.WriteRequest{"items": many}, ""},
		"26 in two": {map[string][]types.WriteRequest{"items": many[:25], "sorted": {putRequest(attrs{"p": str("a"), "s": num("1")})}}, "Too many items requested for the BatchWriteItem call"},
		"duplicate": {map[string][]types.WriteRequest{"items": {putRequest(key("a")), deleteRequest(key("a"))}}, "Provided list of item keys contains duplicates"},
		"bad key":   {map[string][]types.WriteRequest{"items": {putRequest(attrs{"q": str("a")})}}, "One or more parameter values were invalid: Missing the key p in the item"},
		"empty":     {map[string][]types.WriteRequest{"items": {{}}}, "Supplied WriteRequest must contain exactly one of PutRequest and DeleteRequest"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := b.BatchWriteItem(t.Context(), &dynamodb.BatchWriteItemInput{RequestItems: tt.items})
			wantError(t, err, "ValidationException", tt.message)
		})
	}
	_, err := b.BatchWriteItem(t.Context(), &dynamodb.BatchWriteItemInput{RequestItems: map[string][]types.WriteRequest{"nowhere": many[:1]}})
	wantError(t, err, "ResourceNotFoundException", "Requested resource not found")
}

func TestBatchGet(t *testing.T) {
	t.Parallel()
	b := setup(t, dynamodbemu.Options{})
	b.put(t, "items", with(key("a"), attrs{"x": num("1"), "y": num("2")}))
	b.put(t, "sorted", attrs{"p": str("a"), "s": num("1")})
	out, err := b.BatchGetItem(t.Context(), &dynamodb.BatchGetItemInput{
		RequestItems: map[string]types.KeysAndAttributes{
			"items":  {Keys: []map[string]types.AttributeValue{key("a"), key("none")}, ProjectionExpression: aws.String("#x"), ExpressionAttributeNames: map[string]string{"#x": "x"}},
			"sorted": {Keys: []map[string]types.AttributeValue{{"p": str("a"), "s": num("1")}}, ConsistentRead: aws.Bool(true)},
		},
		ReturnConsumedCapacity: types.ReturnConsumedCapacityTotal,
	})
	if err != nil || len(out.UnprocessedKeys) != 0 || len(out.Responses["items"]) != 1 {
		t.Fatalf("got %v, %v", out, err)
	}
	wantItem(t, out.Responses["items"][0], attrs{"x": num("1")})
	wantItem(t, out.Responses["sorted"][0], attrs{"p": str("a"), "s": num("1")})
	if aws.ToFloat64(out.ConsumedCapacity[0].CapacityUnits) != 1 || aws.ToFloat64(out.ConsumedCapacity[1].CapacityUnits) != 1 {
		t.Errorf("got %v", out.ConsumedCapacity)
	}
	_, err = b.BatchGetItem(t.Context(), &dynamodb.BatchGetItemInput{RequestItems: map[string]types.KeysAndAttributes{"items": {Keys: []map[string]types.AttributeValue{key("a"), key("a")}}}})
	wantError(t, err, "ValidationException", "Provided list of item keys contains duplicates")
	var many []map[string]types.AttributeValue
	for i := range 101 {
		many = append(many, key(strconv.Itoa(i)))
	}
	_, err = b.BatchGetItem(t.Context(), &dynamodb.BatchGetItemInput{RequestItems: map[string]types.KeysAndAttributes{"items": {Keys: many}}})
	wantError(t, err, "ValidationException", "Too many items requested for the BatchGetItem call")
}

func TestBatchGetLeavesTheRestBeyondSixteenMegabytes(t *testing.T) {
	t.Parallel()
	b := setup(t, dynamodbemu.Options{})
	big := str(strings.Repeat("x", 390<<10))
	var keys []map[string]types.AttributeValue
	for i := range 60 {
		b.put(t, "items", with(key(strconv.Itoa(i)), attrs{"x": big}))
		keys = append(keys, key(strconv.Itoa(i)))
	}
	request := map[string]types.KeysAndAttributes{"items": {Keys: keys, ProjectionExpression: aws.String("p")}}
	seen, calls := 0, 0
	for ; len(request) > 0; calls++ {
		out, err := b.BatchGetItem(t.Context(), &dynamodb.BatchGetItemInput{RequestItems: request})
		if err != nil {
			t.Fatal(err)
		}
		seen += len(out.Responses["items"])
		request = out.UnprocessedKeys
	}
	if seen != 60 || calls != 2 {
		t.Errorf("saw %d items in %d calls", seen, calls)
	}
}
