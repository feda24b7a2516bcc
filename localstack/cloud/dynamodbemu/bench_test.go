package dynamodbemu_test

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/sluice-dev/sluice/localstack/cloud/dynamodbemu"
)

// BenchmarkConditionalUpdate is the cost of a limiter's decision within the
// emulator, without an SDK.
func BenchmarkConditionalUpdate(b *testing.B) {
	server := dynamodbemu.New(dynamodbemu.Options{})
	send := func(operation, body string) int {
		r := httptest.NewRequestWithContext(b.Context(), http.MethodPost, "/", bytes.NewReader([]byte(body)))
		r.Header.Set("X-Amz-Target", "DynamoDB_20120810."+operation)
		w := httptest.NewRecorder()
		server.ServeHTTP(w, r)
		return w.Code
	}
	if send("CreateTable", `{"TableName":"items","BillingMode":"PAY_PER_REQUEST","KeySchema":[{"AttributeName":"p","KeyType":"HASH"}],"AttributeDefinitions":[{"AttributeName":"p","AttributeType":"S"}]}`) != http.StatusOK {
		b.Fatal("no table")
	}
	const update = `{"TableName":"items","Key":{"p":{"S":"k"}},
		"UpdateExpression":"SET e = :e, p1 = if_not_exists(p1, :floor) + :cost, n = if_not_exists(n, :zero) + :one",
		"ConditionExpression":"attribute_not_exists(e) OR (e = :e AND p1 BETWEEN :floor AND :most)",
		"ExpressionAttributeValues":{":e":{"N":"10000000000000"},":floor":{"N":"1"},":cost":{"N":"1000"},":most":{"N":"123456789012345678901234567890"},":zero":{"N":"0"},":one":{"N":"1"}},
		"ReturnValues":"ALL_NEW"}`
	b.ReportAllocs()
	for b.Loop() {
		if send("UpdateItem", update) != http.StatusOK {
			b.Fatal("refused")
		}
	}
}
