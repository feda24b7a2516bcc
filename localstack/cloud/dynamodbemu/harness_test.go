package dynamodbemu_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"
	"github.com/aws/smithy-go/logging"

	"github.com/sluice-dev/sluice/localstack/cloud/dynamodbemu"
)

// A transport hands requests to a handler without a socket.
type transport struct {
	handler http.Handler
	mu      sync.Mutex
	last    *http.Response
}

func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	t.handler.ServeHTTP(w, r)
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	response := w.Result()
	response.Request = r
	t.mu.Lock()
	t.last = response
	t.mu.Unlock()
	return response, nil
}

// A bundle is a server with a client and a table "items" with partition key p (S).
type bundle struct {
	*dynamodb.Client

	server    *dynamodbemu.Server
	transport *transport
}

func setup(t *testing.T, opts dynamodbemu.Options) *bundle {
	t.Helper()
	server := dynamodbemu.New(opts)
	b := &bundle{server: server, transport: &transport{handler: server}}
	b.Client = dynamodb.NewFromConfig(aws.Config{
		Region:     "us-east-1",
		HTTPClient: &http.Client{Transport: b.transport},
		Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{AccessKeyID: "a", SecretAccessKey: "b"}, nil
		}),
		Logger: logging.LoggerFunc(func(c logging.Classification, format string, v ...any) {
			t.Errorf("the SDK logged: "+format, v...)
		}),
		Retryer: func() aws.Retryer { return aws.NopRetryer{} },
	})
	b.createTable(t, "items", "p", types.ScalarAttributeTypeS)
	b.createTable(t, "sorted", "p", types.ScalarAttributeTypeS, "s", types.ScalarAttributeTypeN)
	return b
}

// createTable makes a table; keys are names and types, by turns.
func (b *bundle) createTable(t *testing.T, name string, keys ...any) {
	t.Helper()
	in := &dynamodb.CreateTableInput{TableName: &name, BillingMode: types.BillingModePayPerRequest}
	for i := 0; i < len(keys); i += 2 {
		keyType := types.KeyTypeHash
		if i > 0 {
			keyType = types.KeyTypeRange
		}
		in.AttributeDefinitions = append(in.AttributeDefinitions, types.AttributeDefinition{AttributeName: aws.String(keys[i].(string)), AttributeType: keys[i+1].(types.ScalarAttributeType)})
		in.KeySchema = append(in.KeySchema, types.KeySchemaElement{AttributeName: aws.String(keys[i].(string)), KeyType: keyType})
	}
	if _, err := b.CreateTable(t.Context(), in); err != nil {
		t.Fatal(err)
	}
}

type attrs = map[string]types.AttributeValue

func str(s string) types.AttributeValue { return &types.AttributeValueMemberS{Value: s} }
func num(s string) types.AttributeValue { return &types.AttributeValueMemberN{Value: s} }
func list(v ...types.AttributeValue) types.AttributeValue {
	return &types.AttributeValueMemberL{Value: v}
}
func dict(m attrs) types.AttributeValue       { return &types.AttributeValueMemberM{Value: m} }
func numSet(s ...string) types.AttributeValue { return &types.AttributeValueMemberNS{Value: s} }
func strSet(s ...string) types.AttributeValue { return &types.AttributeValueMemberSS{Value: s} }
func binSet(s ...string) types.AttributeValue {
	out := &types.AttributeValueMemberBS{Value: [][]byte{}}
	for _, m := range s {
		out.Value = append(out.Value, []byte(m))
	}
	return out
}
func boolean(b bool) types.AttributeValue  { return &types.AttributeValueMemberBOOL{Value: b} }
func binary(s string) types.AttributeValue { return &types.AttributeValueMemberB{Value: []byte(s)} }
func null() types.AttributeValue           { return &types.AttributeValueMemberNULL{Value: true} }
func key(p string) attrs                   { return attrs{"p": str(p)} }
func with(a attrs, more attrs) attrs {
	out := attrs{}
	maps.Copy(out, a)
	maps.Copy(out, more)
	return out
}

func (b *bundle) put(t *testing.T, table string, item attrs) {
	t.Helper()
	if _, err := b.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: &table, Item: item}); err != nil {
		t.Fatal(err)
	}
}

func (b *bundle) get(t *testing.T, table string, key attrs) attrs {
	t.Helper()
	out, err := b.GetItem(t.Context(), &dynamodb.GetItemInput{TableName: &table, Key: key, ConsistentRead: aws.Bool(true)})
	if err != nil {
		t.Fatal(err)
	}
	return out.Item
}

// update runs an UpdateExpression on the item p = "k" of table items.
func (b *bundle) update(t *testing.T, expression string, names map[string]string, values attrs) (attrs, error) {
	t.Helper()
	out, err := b.UpdateItem(t.Context(), &dynamodb.UpdateItemInput{
		TableName: aws.String("items"), Key: key("k"), UpdateExpression: &expression,
		ExpressionAttributeNames: names, ExpressionAttributeValues: values, ReturnValues: types.ReturnValueAllNew,
	})
	if err != nil {
		return nil, err
	}
	return out.Attributes, nil
}

// wantItem compares two items deeply, sets without regard to order.
func wantItem(t *testing.T, got, want attrs) {
	t.Helper()
	if g, w := show(dict(got)), show(dict(want)); g != w {
		t.Errorf("got  %s\nwant %s", g, w)
	}
}

// show writes a value for a test's message.
func show(v types.AttributeValue) string {
	switch v := v.(type) {
	case *types.AttributeValueMemberM:
		parts := []string{}
		for _, k := range slices.Sorted(maps.Keys(v.Value)) {
			parts = append(parts, k+": "+show(v.Value[k]))
		}
		return "{" + strings.Join(parts, ", ") + "}"
	case *types.AttributeValueMemberL:
		parts := []string{}
		for _, e := range v.Value {
			parts = append(parts, show(e))
		}
		return "[" + strings.Join(parts, ", ") + "]"
	case *types.AttributeValueMemberN:
		return v.Value
	case *types.AttributeValueMemberS:
		return strconv.Quote(v.Value)
	case *types.AttributeValueMemberSS:
		return fmt.Sprintf("SS%q", slices.Sorted(slices.Values(v.Value)))
	case *types.AttributeValueMemberNS:
		return fmt.Sprintf("NS%s", slices.Sorted(slices.Values(v.Value)))
	}
	return fmt.Sprintf("%T%+v", v, reflect.ValueOf(v).Elem().FieldByName("Value"))
}

// wantError checks an error's code and message; an empty message means any.
func wantError(t *testing.T, err error, code, message string) {
	t.Helper()
	var api smithy.APIError
	if !errors.As(err, &api) {
		t.Fatalf("got error %v, want %s", err, code)
	}
	if api.ErrorCode() != code || (message != "" && api.ErrorMessage() != message) {
		t.Errorf("got %s: %s\nwant %s: %s", api.ErrorCode(), api.ErrorMessage(), code, message)
	}
}

// post sends a request as it is, past the SDK's own checks.
func (b *bundle) post(t *testing.T, operation, body string) (status int, answer string) {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", bytes.NewReader([]byte(body)))
	r.Header.Set("X-Amz-Target", "DynamoDB_20120810."+operation)
	w := httptest.NewRecorder()
	b.server.ServeHTTP(w, r)
	text, err := io.ReadAll(w.Result().Body)
	if err != nil {
		t.Fatal(err)
	}
	return w.Code, string(text)
}
