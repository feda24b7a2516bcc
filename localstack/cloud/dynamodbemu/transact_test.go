package dynamodbemu_test

import (
	"errors"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/sluice-dev/sluice/localstack/cloud/dynamodbemu"
)

func putAction(p string, condition *string) types.TransactWriteItem {
	return types.TransactWriteItem{Put: &types.Put{TableName: aws.String("items"), Item: with(key(p), attrs{"a": num("1")}), ConditionExpression: condition}}
}

func checkAction(p, condition string) types.TransactWriteItem {
	return types.TransactWriteItem{ConditionCheck: &types.ConditionCheck{
		TableName: aws.String("items"), Key: key(p), ConditionExpression: &condition,
		ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
	}}
}

func incrementAction(p string) types.TransactWriteItem {
	return types.TransactWriteItem{Update: &types.Update{
		TableName: aws.String("items"), Key: key(p), UpdateExpression: aws.String("SET n = if_not_exists(n, :zero) + :one"),
		ExpressionAttributeValues: attrs{":zero": num("0"), ":one": num("1")},
	}}
}

func deleteAction(p string) types.TransactWriteItem {
	return types.TransactWriteItem{Delete: &types.Delete{TableName: aws.String("items"), Key: key(p)}}
}

func (b *bundle) transact(t *testing.T, actions ...types.TransactWriteItem) error {
	t.Helper()
	_, err := b.TransactWriteItems(t.Context(), &dynamodb.TransactWriteItemsInput{TransactItems: actions})
	return err
}

// wantReasons checks a cancelled transaction's codes, in its reasons and its message.
func wantReasons(t *testing.T, err error, codes ...string) []types.CancellationReason {
	t.Helper()
	var canceled *types.TransactionCanceledException
	if !errors.As(err, &canceled) {
		t.Fatalf("got %v, want a cancelled transaction", err)
	}
	want := "Transaction cancelled, please refer cancellation reasons for specific reasons [" + strings.Join(codes, ", ") + "]"
	if canceled.ErrorMessage() != want {
		t.Errorf("got message %q, want %q", canceled.ErrorMessage(), want)
	}
	for i, r := range canceled.CancellationReasons {
		if aws.ToString(r.Code) != codes[i] {
			t.Errorf("reason %d is %s, want %s", i, aws.ToString(r.Code), codes[i])
		}
		if (codes[i] == "None") != (r.Message == nil) {
			t.Errorf("reason %d has message %q", i, aws.ToString(r.Message))
		}
	}
	return canceled.CancellationReasons
}

func TestATransactionDoesAllItsActions(t *testing.T) {
	t.Parallel()
	b := setup(t, dynamodbemu.Options{})
	b.put(t, "items", with(key("dies"), attrs{"a": num("1")}))
	b.put(t, "items", with(key("old"), attrs{"n": num("41")}))
	if err := b.transact(t, putAction("new", nil), incrementAction("old"), incrementAction("fresh"), deleteAction("dies"), checkAction("none", "attribute_not_exists(p)")); err != nil {
		t.Fatal(err)
	}
	for p, want := range map[string]attrs{
		"new": {"p": str("new"), "a": num("1")}, "old": {"p": str("old"), "n": num("42")}, "fresh": {"p": str("fresh"), "n": num("1")}, "dies": nil, "none": nil,
	} {
		wantItem(t, b.get(t, "items", key(p)), want)
	}
}

func TestAFailedConditionCancelsTheTransaction(t *testing.T) {
	t.Parallel()
	b := setup(t, dynamodbemu.Options{})
	stored := with(key("there"), attrs{"a": num("7")})
	b.put(t, "items", stored)
	err := b.transact(t, putAction("new", nil), checkAction("there", "attribute_not_exists(p)"), checkAction("fine", "attribute_not_exists(p)"), checkAction("absent", "attribute_exists(p)"))
	reasons := wantReasons(t, err, "None", "ConditionalCheckFailed", "None", "ConditionalCheckFailed")
	wantItem(t, reasons[1].Item, stored)
	wantItem(t, reasons[3].Item, nil)
	if got := aws.ToString(reasons[1].Message); got != "The conditional request failed" {
		t.Errorf("got %q", got)
	}
	wantItem(t, b.get(t, "items", key("new")), nil)
}

func TestTheOldItemIsOnlyReturnedWhereAskedFor(t *testing.T) {
	t.Parallel()
	b := setup(t, dynamodbemu.Options{})
	b.put(t, "items", key("k"))
	reasons := wantReasons(t, b.transact(t, putAction("k", aws.String("attribute_not_exists(p)"))), "ConditionalCheckFailed")
	wantItem(t, reasons[0].Item, nil)

	b = setup(t, dynamodbemu.Options{NoItemOnFailure: true})
	b.put(t, "items", key("k"))
	reasons = wantReasons(t, b.transact(t, checkAction("k", "attribute_not_exists(p)")), "ConditionalCheckFailed")
	wantItem(t, reasons[0].Item, nil)
	_, err := b.DeleteItem(t.Context(), &dynamodb.DeleteItemInput{
		TableName: aws.String("items"), Key: key("k"), ConditionExpression: aws.String("attribute_not_exists(p)"),
		ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
	})
	var failed *types.ConditionalCheckFailedException
	if !errors.As(err, &failed) || failed.Item != nil {
		t.Errorf("got %v", err)
	}
}

func TestInvalidActionsCancelTheTransaction(t *testing.T) {
	t.Parallel()
	b := setup(t, dynamodbemu.Options{})
	b.put(t, "items", with(key("k"), attrs{"s": str("x")}))
	badKey := types.TransactWriteItem{Put: &types.Put{TableName: aws.String("items"), Item: attrs{"p": num("1")}}}
	reasons := wantReasons(t, b.transact(t, badKey, badKey, checkAction("absent", "attribute_exists(p)")), "ValidationError", "None", "None")
	if got := aws.ToString(reasons[0].Message); got != "One or more parameter values were invalid: Type mismatch for key p expected: S actual: N" {
		t.Errorf("got %q", got)
	}
	badType := types.TransactWriteItem{Update: &types.Update{
		TableName: aws.String("items"), Key: key("k"), UpdateExpression: aws.String("SET s = s + :one"), ExpressionAttributeValues: attrs{":one": num("1")},
	}}
	reasons = wantReasons(t, b.transact(t, putAction("new", nil), badType), "None", "ValidationError")
	if got := aws.ToString(reasons[1].Message); got != "An operand in the update expression has an incorrect data type" {
		t.Errorf("got %q", got)
	}
	wantItem(t, b.get(t, "items", key("new")), nil)
}

func TestTransactionsThatAreRefused(t *testing.T) {
	t.Parallel()
	b := setup(t, dynamodbemu.Options{})
	many := make([]types.TransactWriteItem, 101)
	for i := range many {
		many[i] = putAction(strconv.Itoa(i), nil)
	}
	if err := b.transact(t, many[:100]...); err != nil {
		t.Error(err)
	}
	const sameItem = "Transaction request cannot include multiple operations on one item"
	for name, tt := range map[string]struct {
		actions []types.TransactWriteItem
		message string
	}{
		"none":                   {[]types.TransactWriteItem{}, "1 validation error detected: Value '[]' at 'transactItems' failed to satisfy constraint: Member must have length greater than or equal to 1"},
		"101":                    {many, "1 validation error detected: Value '[…]' at 'transactItems' failed to satisfy constraint: Member must have length less than or equal to 100"},
		"an item put twice":      {[]types.TransactWriteItem{putAction("a", nil), putAction("a", nil)}, sameItem},
		"an item put, checked":   {[]types.TransactWriteItem{putAction("a", nil), checkAction("b", "attribute_exists(p)"), checkAction("a", "attribute_exists(p)")}, sameItem},
		"no action":              {[]types.TransactWriteItem{{}}, "TransactItems can only contain one of Check, Put, Update or Delete"},
		"two actions in one":     {[]types.TransactWriteItem{{Put: putAction("a", nil).Put, Delete: deleteAction("b").Delete}}, "TransactItems can only contain one of Check, Put, Update or Delete"},
		"a syntax error":         {[]types.TransactWriteItem{putAction("a", nil), checkAction("b", "hello!")}, `Invalid ConditionExpression: Syntax error; token: "!", near: "hello!"`},
		"an empty key":           {[]types.TransactWriteItem{putAction("a", nil), putAction("", nil)}, "One or more parameter values are not valid. The AttributeValue for a key attribute cannot contain an empty string value. Key: p"},
		"an empty key to delete": {[]types.TransactWriteItem{deleteAction("")}, "One or more parameter values are not valid. The AttributeValue for a key attribute cannot contain an empty string value. Key: p"},
	} {
		t.Run(name, func(t *testing.T) {
			wantError(t, b.transact(t, tt.actions...), "ValidationException", tt.message)
		})
	}
	err := b.transact(t, types.TransactWriteItem{Delete: &types.Delete{TableName: aws.String("nowhere"), Key: key("k")}})
	wantError(t, err, "ResourceNotFoundException", "Requested resource not found")
	_, err = b.TransactWriteItems(t.Context(), &dynamodb.TransactWriteItemsInput{TransactItems: many[:1], ClientRequestToken: aws.String(strings.Repeat("x", 37))})
	wantError(t, err, "ValidationException", "")
}

func TestARequestTokenWorksForTenMinutes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, dynamodbemu.Options{})
		run := func(p string) (*dynamodb.TransactWriteItemsOutput, error) {
			return b.TransactWriteItems(t.Context(), &dynamodb.TransactWriteItemsInput{
				TransactItems: []types.TransactWriteItem{incrementAction(p)}, ClientRequestToken: aws.String("token"), ReturnConsumedCapacity: types.ReturnConsumedCapacityTotal,
			})
		}
		wantCount := func(want string) {
			t.Helper()
			wantItem(t, b.get(t, "items", key("k")), with(key("k"), attrs{"n": num(want)}))
		}
		for _, step := range []struct {
			pause       time.Duration
			want        string
			read, write float64
		}{{0, "1", 0, 2}, {0, "1", 2, 0}, {10*time.Minute - 1, "1", 2, 0}, {1, "2", 0, 2}, {time.Minute, "2", 2, 0}} {
			time.Sleep(step.pause)
			out, err := run("k")
			if err != nil {
				t.Fatal(err)
			}
			if c := out.ConsumedCapacity[0]; aws.ToFloat64(c.ReadCapacityUnits) != step.read || aws.ToFloat64(c.WriteCapacityUnits) != step.write {
				t.Errorf("consumed %v reads, %v writes", aws.ToFloat64(c.ReadCapacityUnits), aws.ToFloat64(c.WriteCapacityUnits))
			}
			wantCount(step.want)
		}
		_, err := run("another")
		wantError(t, err, "IdempotentParameterMismatchException", "")
		time.Sleep(10 * time.Minute)
		if _, err := run("another"); err != nil {
			t.Error(err)
		}
	})
}

func TestACancelledTransactionDoesNotUseUpItsToken(t *testing.T) {
	t.Parallel()
	b := setup(t, dynamodbemu.Options{})
	run := func() error {
		_, err := b.TransactWriteItems(t.Context(), &dynamodb.TransactWriteItemsInput{
			TransactItems: []types.TransactWriteItem{checkAction("gate", "attribute_exists(p)"), incrementAction("k")}, ClientRequestToken: aws.String("token"),
		})
		return err
	}
	wantReasons(t, run(), "ConditionalCheckFailed", "None")
	b.put(t, "items", key("gate"))
	for range 2 {
		if err := run(); err != nil {
			t.Fatal(err)
		}
	}
	wantItem(t, b.get(t, "items", key("k")), with(key("k"), attrs{"n": num("1")}))
}

func TestTransactGet(t *testing.T) {
	t.Parallel()
	b := setup(t, dynamodbemu.Options{})
	b.put(t, "items", with(key("a"), attrs{"x": num("1"), "y": num("2")}))
	b.put(t, "sorted", attrs{"p": str("b"), "s": num("1"), "big": str(strings.Repeat("x", 5000))})
	get := func(table string, k attrs, projection *string) types.TransactGetItem {
		return types.TransactGetItem{Get: &types.Get{TableName: &table, Key: k, ProjectionExpression: projection}}
	}
	out, err := b.TransactGetItems(t.Context(), &dynamodb.TransactGetItemsInput{
		TransactItems: []types.TransactGetItem{
			get("items", key("a"), aws.String("y")), get("items", key("none"), nil), get("sorted", attrs{"p": str("b"), "s": num("1.0")}, aws.String("s")),
		},
		ReturnConsumedCapacity: types.ReturnConsumedCapacityTotal,
	})
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []attrs{{"y": num("2")}, nil, {"s": num("1")}} {
		wantItem(t, out.Responses[i].Item, want)
	}
	for i, want := range []float64{4, 4} {
		if got := aws.ToFloat64(out.ConsumedCapacity[i].CapacityUnits); got != want {
			t.Errorf("%s: %v units, want %v", aws.ToString(out.ConsumedCapacity[i].TableName), got, want)
		}
	}
	_, err = b.TransactGetItems(t.Context(), &dynamodb.TransactGetItemsInput{TransactItems: []types.TransactGetItem{get("items", key("a"), nil), get("items", key("a"), nil)}})
	wantError(t, err, "ValidationException", "Transaction request cannot include multiple operations on one item")
	_, err = b.TransactGetItems(t.Context(), &dynamodb.TransactGetItemsInput{TransactItems: []types.TransactGetItem{get("items", key("a"), nil), get("items", attrs{"p": num("1")}, nil)}})
	wantReasons(t, err, "None", "ValidationError")
}
