package dynamodbemu_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/sluice-dev/sluice/localstack/cloud/dynamodbemu"
)

// increment adds one to n of the item p, by a plain write.
func (b *bundle) increment(ctx context.Context, p string, options ...func(*dynamodb.Options)) error {
	_, err := b.UpdateItem(ctx, &dynamodb.UpdateItemInput{
		TableName: aws.String("items"), Key: key(p), UpdateExpression: aws.String("ADD n :one"), ExpressionAttributeValues: attrs{":one": num("1")},
	}, options...)
	return err
}

func TestFaults(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		kind dynamodbemu.FaultKind
		code string
		done bool
	}{
		"throttled":           {dynamodbemu.Throttled, "ThrottlingException", false},
		"throughput exceeded": {dynamodbemu.ThroughputExceeded, "ProvisionedThroughputExceededException", false},
		"conflict":            {dynamodbemu.TransactionConflict, "TransactionConflictException", false},
		"server error":        {dynamodbemu.ServerError, "InternalServerError", false},
		"lost answer":         {dynamodbemu.LostAnswer, "InternalServerError", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t, dynamodbemu.Options{})
			b.server.FailNext(1, dynamodbemu.Fault{Kind: tt.kind}, dynamodbemu.Operations("UpdateItem"))
			if got := b.get(t, "items", key("k")); got != nil {
				t.Errorf("got %v", got)
			}
			wantError(t, b.increment(t.Context(), "k"), tt.code, "")
			if done := b.get(t, "items", key("k")) != nil; done != tt.done {
				t.Errorf("carried out: %t, want %t", done, tt.done)
			}
			if err := b.increment(t.Context(), "k"); err != nil {
				t.Errorf("the plan goes on: %v", err)
			}
		})
	}
}

func TestTransactionConflictsComeInTwoShapes(t *testing.T) {
	t.Parallel()
	b := setup(t, dynamodbemu.Options{})
	actions := []types.TransactWriteItem{incrementAction("a"), incrementAction("b"), incrementAction("c")}
	b.server.FailNext(1, dynamodbemu.Fault{Kind: dynamodbemu.TransactionConflict}, nil)
	reasons := wantReasons(t, b.transact(t, actions...), "TransactionConflict", "None", "None")
	if got := aws.ToString(reasons[0].Message); got != "Transaction is ongoing for the item" {
		t.Errorf("got %q", got)
	}
	b.server.FailNext(1, dynamodbemu.Fault{Kind: dynamodbemu.TransactionConflict, Items: []int{1, 2}}, nil)
	wantReasons(t, b.transact(t, actions...), "None", "TransactionConflict", "TransactionConflict")
	b.server.FailNext(1, dynamodbemu.Fault{Kind: dynamodbemu.TransactionConflict}, nil)
	err := b.increment(t.Context(), "a")
	if _, ok := errors.AsType[*types.TransactionConflictException](err); !ok {
		t.Errorf("got %v", err)
	}
	wantItem(t, b.get(t, "items", key("a")), nil)
}

func TestAFaultFunctionSeesEveryCall(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var seen []string
	b := setup(t, dynamodbemu.Options{Fault: func(c dynamodbemu.Call) dynamodbemu.Fault {
		mu.Lock()
		defer mu.Unlock()
		seen = append(seen, fmt.Sprint(c.Number, c.Operation, bytes.Contains(c.Body, []byte(`"items"`))))
		if c.Number == 4 {
			return dynamodbemu.Fault{Kind: dynamodbemu.Throttled}
		}
		return dynamodbemu.Fault{}
	}})
	b.get(t, "items", key("k"))
	wantError(t, b.increment(t.Context(), "k"), "ThrottlingException", "")
	want := []string{"1CreateTabletrue", "2CreateTablefalse", "3GetItemtrue", "4UpdateItemtrue"}
	for i := range want {
		if i >= len(seen) || seen[i] != want[i] {
			t.Fatalf("got %v", seen)
		}
	}
}

// An SDK that sends a call again after a lost answer carries it out twice, unless
// a token makes it idempotent.
func TestALostAnswerAndTheSDKsRetry(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, dynamodbemu.Options{})
		retrying := func(o *dynamodb.Options) { o.Retryer = retry.NewStandard() }
		b.server.FailNext(1, dynamodbemu.Fault{Kind: dynamodbemu.LostAnswer}, dynamodbemu.Operations("UpdateItem"))
		if err := b.increment(t.Context(), "plain", retrying); err != nil {
			t.Fatal(err)
		}
		wantItem(t, b.get(t, "items", key("plain")), with(key("plain"), attrs{"n": num("2")}))
		b.server.FailNext(1, dynamodbemu.Fault{Kind: dynamodbemu.LostAnswer}, dynamodbemu.Operations("TransactWriteItems"))
		if _, err := b.TransactWriteItems(t.Context(), &dynamodb.TransactWriteItemsInput{TransactItems: []types.TransactWriteItem{incrementAction("once")}}, retrying); err != nil {
			t.Fatal(err)
		}
		wantItem(t, b.get(t, "items", key("once")), with(key("once"), attrs{"n": num("1")}))
	})
}

func TestLatencyIsVirtualInABubble(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, dynamodbemu.Options{Latency: func(c dynamodbemu.Call) (before, after time.Duration) {
			if c.Operation != "UpdateItem" {
				return 0, 0
			}
			return 3 * time.Second, 4 * time.Second
		}})
		start := time.Now()
		done := make(chan error)
		go func() { done <- b.increment(t.Context(), "k") }()
		time.Sleep(3*time.Second - 1)
		synctest.Wait()
		wantItem(t, b.get(t, "items", key("k")), nil)
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		wantItem(t, b.get(t, "items", key("k")), with(key("k"), attrs{"n": num("1")}))
		if err := <-done; err != nil || time.Since(start) != 7*time.Second {
			t.Errorf("got %v after %v", err, time.Since(start))
		}
	})
}

func TestACallerThatGivesUp(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		patience time.Duration
		done     bool
	}{"before it takes effect": {2 * time.Second, false}, "before the answer": {4 * time.Second, true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := setup(t, dynamodbemu.Options{Latency: func(c dynamodbemu.Call) (before, after time.Duration) {
					if c.Operation == "UpdateItem" {
						return 3 * time.Second, 3 * time.Second
					}
					return 0, 0
				}})
				ctx, cancel := context.WithTimeout(t.Context(), tt.patience)
				defer cancel()
				if err := b.increment(ctx, "k"); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("got %v", err)
				}
				if done := b.get(t, "items", key("k")) != nil; done != tt.done {
					t.Errorf("carried out: %t", done)
				}
			})
		})
	}
}

func TestTransactionsHoldTheirItemsWhileTheyWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, dynamodbemu.Options{Conflicts: true, Latency: func(c dynamodbemu.Call) (before, after time.Duration) {
			if c.Operation == "TransactWriteItems" {
				return 10 * time.Millisecond, 10 * time.Millisecond
			}
			return 0, 0
		}})
		token := aws.String("token")
		run := func() error {
			_, err := b.TransactWriteItems(t.Context(), &dynamodb.TransactWriteItemsInput{ClientRequestToken: token, TransactItems: []types.TransactWriteItem{incrementAction("a"), incrementAction("b")}})
			return err
		}
		first := make(chan error, 1)
		go func() { first <- run() }()
		time.Sleep(5 * time.Millisecond)
		wantError(t, b.increment(t.Context(), "a"), "TransactionConflictException", "")
		wantReasons(t, b.transact(t, incrementAction("c"), incrementAction("b")), "None", "TransactionConflict")
		wantError(t, run(), "TransactionInProgressException", "")
		_, err := b.TransactGetItems(t.Context(), &dynamodb.TransactGetItemsInput{TransactItems: []types.TransactGetItem{{Get: &types.Get{TableName: aws.String("items"), Key: key("b")}}}})
		wantReasons(t, err, "TransactionConflict")
		wantItem(t, b.get(t, "items", key("a")), nil)
		if err := b.increment(t.Context(), "free"); err != nil {
			t.Error(err)
		}
		batch, err := b.BatchWriteItem(t.Context(), &dynamodb.BatchWriteItemInput{RequestItems: map[string][]types.WriteRequest{"items": {
			{PutRequest: &types.PutRequest{Item: key("a")}}, {DeleteRequest: &types.DeleteRequest{Key: key("free")}},
		}}})
		if err != nil || len(batch.UnprocessedItems["items"]) != 1 || batch.UnprocessedItems["items"][0].PutRequest == nil {
			t.Errorf("got %v, %v", batch, err)
		}
		time.Sleep(10 * time.Millisecond)
		synctest.Wait()
		// It has taken effect and holds nothing more, though its answer is on its way.
		if err := b.increment(t.Context(), "a"); err != nil {
			t.Error(err)
		}
		if err := <-first; err != nil {
			t.Error(err)
		}
		wantItem(t, b.get(t, "items", key("a")), with(key("a"), attrs{"n": num("2")}))
	})
}

func TestATransactionThatIsGivenUpReleasesItsItems(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, dynamodbemu.Options{Conflicts: true, Latency: func(c dynamodbemu.Call) (before, after time.Duration) {
			if c.Operation == "TransactWriteItems" {
				return time.Second, 0
			}
			return 0, 0
		}})
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if _, err := b.TransactWriteItems(ctx, &dynamodb.TransactWriteItemsInput{TransactItems: []types.TransactWriteItem{incrementAction("a")}}); err == nil {
			t.Fatal("no error")
		}
		synctest.Wait()
		if err := b.increment(t.Context(), "a"); err != nil {
			t.Error(err)
		}
		wantItem(t, b.get(t, "items", key("a")), with(key("a"), attrs{"n": num("1")}))
	})
}

func TestAnswersCarryTheClockAndAChecksum(t *testing.T) {
	t.Parallel()
	server := time.Date(2031, 2, 3, 4, 5, 6, 999, time.FixedZone("", 3600))
	b := setup(t, dynamodbemu.Options{Clock: func() time.Time { return server }})
	check := func(wantStatus int) {
		t.Helper()
		h := b.transport.last.Header
		if got := h.Get("Date"); got != "Mon, 03 Feb 2031 03:05:06 GMT" {
			t.Errorf("Date is %q", got)
		}
		if b.transport.last.StatusCode != wantStatus || h.Get("Content-Type") != "application/x-amz-json-1.0" || h.Get("X-Amzn-Requestid") == "" {
			t.Errorf("got %d %v", b.transport.last.StatusCode, h)
		}
	}
	if err := b.increment(t.Context(), "k"); err != nil {
		t.Fatal(err)
	}
	check(http.StatusOK)
	_, err := b.update(t, "SET", nil, nil)
	wantError(t, err, "ValidationException", "")
	check(http.StatusBadRequest)

	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://x/", bytes.NewReader([]byte(`{}`)))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("X-Amz-Target", "DynamoDB_20120810.ListTables")
	response, err := b.transport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(response.Body)
	if err := errors.Join(err, response.Body.Close()); err != nil {
		t.Fatal(err)
	}
	if sum := strconv.FormatUint(uint64(crc32.ChecksumIEEE(body)), 10); response.Header.Get("X-Amz-Crc32") != sum {
		t.Errorf("checksum %s of %s, want %s", response.Header.Get("X-Amz-Crc32"), body, sum)
	}
}

func TestWhatTheProtocolRefuses(t *testing.T) {
	t.Parallel()
	b := setup(t, dynamodbemu.Options{})
	for _, tt := range []struct{ operation, body, code string }{
		{"CreateBackup", `{}`, "com.amazon.coral.service#UnknownOperationException"},
		{"PutItem", `{"TableName":`, "com.amazon.coral.service#SerializationException"},
		{"PutItem", `{"TableName":"items","Item":{"p":{"N":5}}}`, "com.amazon.coral.service#SerializationException"},
		{"PutItem", `{"TableName":"items","Item":{"p":{"S":"k","N":"1"}}}`, "com.amazon.coral.validate#ValidationException"},
		{"PutItem", `{"TableName":"items","Item":{"p":{}}}`, "com.amazon.coral.validate#ValidationException"},
		{"PutItem", `{"TableName":"items","Item":{"p":{"S":"k"},"z":{"NULL":false}}}`, "com.amazon.coral.validate#ValidationException"},
		{"PutItem", `{"TableName":"items","Item":{"p":{"S":"k"}},"ReturnValues":"all_old"}`, "com.amazon.coral.validate#ValidationException"},
		{"PutItem", `{"TableName":"items","Item":{"p":{"S":"k"}},"Expected":{"p":{"Exists":false}}}`, "com.amazon.coral.validate#ValidationException"},
		{"UpdateItem", `{"TableName":"items","Key":{"p":{"S":"k"}},"AttributeUpdates":{}}`, "com.amazon.coral.validate#ValidationException"},
		{"Query", `{"TableName":"items","KeyConditions":{}}`, "com.amazon.coral.validate#ValidationException"},
		{"PutItem", `{"Item":{}}`, "com.amazon.coral.validate#ValidationException"},
		{"UpdateItem", `{"TableName":"items"}`, "com.amazon.coral.validate#ValidationException"},
	} {
		status, answer := b.post(t, tt.operation, tt.body)
		if status != http.StatusBadRequest || !strings.Contains(answer, `"__type":"`+tt.code+`"`) {
			t.Errorf("%s %s: %d %s", tt.operation, tt.body, status, answer)
		}
	}
}
