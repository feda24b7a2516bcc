package dynamodbemu_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/sluice-dev/sluice/localstack/cloud/dynamodbemu"
)

// check runs a condition on the item p = "k" by an update that changes nothing.
func (b *bundle) check(t *testing.T, condition string, names map[string]string, values attrs) (bool, error) {
	t.Helper()
	_, err := b.TransactWriteItems(t.Context(), &dynamodb.TransactWriteItemsInput{TransactItems: []types.TransactWriteItem{{
		ConditionCheck: &types.ConditionCheck{
			TableName: aws.String("items"), Key: key("k"), ConditionExpression: &condition,
			ExpressionAttributeNames: names, ExpressionAttributeValues: values,
		},
	}}})
	var canceled *types.TransactionCanceledException
	if errors.As(err, &canceled) && *canceled.CancellationReasons[0].Code == "ConditionalCheckFailed" {
		return false, nil
	}
	return err == nil, err
}

func TestConditions(t *testing.T) {
	t.Parallel()
	b := setup(t, dynamodbemu.Options{})
	b.put(t, "items", attrs{
		"p": str("k"), "n": num("5"), "s": str("hello"), "t": boolean(true), "z": null(), "bin": binary("abc"), "e": str(""),
		"l": list(num("1"), str("x"), list(num("2"))), "m": dict(attrs{"x": num("1"), "y.z": num("2")}), "ns": numSet("1", "2"), "ss": strSet("a", "b"),
		"d.t": num("9"), "big": num("9007199254740993"),
	})
	tests := []struct {
		condition string
		values    attrs
		want      bool
	}{
		{"n = :v", attrs{":v": num("5.0")}, true},
		{"n = :v", attrs{":v": str("5")}, false},
		{"n <> :v", attrs{":v": num("5")}, false},
		{"n <> :v", attrs{":v": str("5")}, true},
		{"n < :v", attrs{":v": num("10")}, true},
		{"n < :v", attrs{":v": str("9")}, false},
		{"n >= :v", attrs{":v": str("1")}, false},
		{"NOT n < :v", attrs{":v": str("9")}, true},
		{"big = :v", attrs{":v": num("9007199254740992")}, false},
		{"big > :v", attrs{":v": num("9007199254740992")}, true},
		{"s > :v", attrs{":v": str("hellO")}, true},
		{"bin >= :v", attrs{":v": binary("abc")}, true},
		{"gone = :v", attrs{":v": num("5")}, false},
		{"gone < :v", attrs{":v": num("5")}, false},
		{"gone >= :v", attrs{":v": num("5")}, false},
		{"gone <> :v", attrs{":v": num("5")}, true},
		{"gone = absent", nil, false},
		{"NOT gone = :v", attrs{":v": num("5")}, true},
		{"gone BETWEEN :v AND :w", attrs{":v": num("1"), ":w": num("9")}, false},
		{"n BETWEEN :v AND :w", attrs{":v": num("5"), ":w": num("9")}, true},
		{"n BETWEEN :v AND :w", attrs{":v": num("1"), ":w": num("4.99")}, false},
		{":v BETWEEN m.x AND n", attrs{":v": num("3")}, true},
		{"n BETWEEN #d AND m.x", nil, false},
		{"n IN (:v)", attrs{":v": num("5")}, true},
		{"n IN (:v, :w, s)", attrs{":v": num("1"), ":w": str("5")}, false},
		{"gone IN (:v)", attrs{":v": num("1")}, false},
		{"attribute_exists(n)", nil, true},
		{"attribute_exists(z)", nil, true},
		{"attribute_exists(m.x)", nil, true},
		{"attribute_exists(m.q)", nil, false},
		{"attribute_exists(l[2][0])", nil, true},
		{"attribute_exists(l[3])", nil, false},
		{"attribute_exists(n.x)", nil, false},
		{"attribute_not_exists(gone)", nil, true},
		{"attribute_not_exists(#d)", nil, false},
		{"attribute_exists(#y)", nil, false},
		{"m.#y = :v", attrs{":v": num("2")}, true},
		{"#d = :v", attrs{":v": num("9")}, true},
		{"attribute_type(l, :v)", attrs{":v": str("L")}, true},
		{"attribute_type(n, :v)", attrs{":v": str("S")}, false},
		{"attribute_type(gone, :v)", attrs{":v": str("S")}, false},
		{"begins_with(s, :v)", attrs{":v": str("he")}, true},
		{"begins_with(s, :v)", attrs{":v": str("")}, true},
		{"begins_with(s, :v)", attrs{":v": binary("he")}, false},
		{"begins_with(bin, :v)", attrs{":v": binary("ab")}, true},
		{"contains(s, :v)", attrs{":v": str("ell")}, true},
		{"contains(s, :v)", attrs{":v": num("1")}, false},
		{"contains(l, :v)", attrs{":v": str("x")}, true},
		{"contains(l, :v)", attrs{":v": list(num("2.0"))}, true},
		{"contains(ns, :v)", attrs{":v": num("2.0")}, true},
		{"contains(ns, :v)", attrs{":v": str("2")}, false},
		{"contains(ss, :v)", attrs{":v": str("b")}, true},
		{"contains(:v, n)", attrs{":v": list(num("5"))}, true},
		{"size(s) = :v", attrs{":v": num("5")}, true},
		{"size(e) = :v", attrs{":v": num("0")}, true},
		{"size(l) BETWEEN :v AND n", attrs{":v": num("3")}, true},
		{"size(m) < size(s)", nil, true},
		{"size(n) = :v", attrs{":v": num("1")}, false},
		{"size(gone) < :v", attrs{":v": num("1")}, false},
		{"ns = :v", attrs{":v": numSet("2", "1.0")}, true},
		{"ns = :v", attrs{":v": numSet("2")}, false},
		{"l = :v", attrs{":v": list(num("1"), str("x"), list(num("2")))}, true},
		{"m = :v", attrs{":v": dict(attrs{"x": num("1"), "y.z": num("2.0")})}, true},
		{"t = :v", attrs{":v": boolean(true)}, true},
		{"z = :v", attrs{":v": null()}, true},
		{"n = :v OR s = :v AND t = :v", attrs{":v": num("5")}, true},
		{"(n = :v OR s = :v) AND t = :v", attrs{":v": num("5")}, false},
		{"NOT n = :v OR n = :v", attrs{":v": num("5")}, true},
		{"NOT (n = :v OR n = :v)", attrs{":v": num("5")}, false},
		{"NOT NOT n = :v", attrs{":v": num("5")}, true},
		{"n = :v and not s = :v Or t = :v", attrs{":v": num("5")}, true},
		{"(n) = (:v)", attrs{":v": num("5")}, true},
		{"n BETWEEN :v AND :w AND s = :v", attrs{":v": num("1"), ":w": num("9")}, false},
	}
	for _, tt := range tests {
		names := map[string]string{}
		for placeholder, name := range map[string]string{"#d": "d.t", "#y": "y.z"} {
			if strings.Contains(tt.condition, placeholder) {
				names[placeholder] = name
			}
		}
		if len(names) == 0 {
			names = nil
		}
		got, err := b.check(t, tt.condition, names, tt.values)
		if err != nil || got != tt.want {
			t.Errorf("%s with %s: got %t, %v, want %t", tt.condition, show(dict(tt.values)), got, err, tt.want)
		}
	}
}

func TestConditionsOnAnAbsentItem(t *testing.T) {
	t.Parallel()
	b := setup(t, dynamodbemu.Options{})
	for condition, want := range map[string]bool{
		"attribute_not_exists(p)":           true,
		"attribute_exists(p)":               false,
		"p = :v":                            false,
		"p <> :v":                           true,
		"attribute_not_exists(p) OR p = :v": true,
		"NOT a = :v AND NOT b = :v":         true,
	} {
		values := attrs{":v": str("k")}
		if !strings.Contains(condition, ":v") {
			values = nil
		}
		if got, err := b.check(t, condition, nil, values); err != nil || got != want {
			t.Errorf("%s: got %t, %v, want %t", condition, got, err, want)
		}
	}
}

func TestConditionsThatAreRefused(t *testing.T) {
	t.Parallel()
	b := setup(t, dynamodbemu.Options{})
	const invalid = "Invalid ConditionExpression: "
	v := attrs{":v": num("1")}
	tests := []struct {
		condition string
		values    attrs
		message   string
	}{
		{"", nil, invalid + "The expression can not be empty;"},
		{"a", nil, invalid + `Syntax error; token: "<EOF>", near: "a"`},
		{"hello!", nil, invalid + `Syntax error; token: "!", near: "hello!"`},
		{"a = :v AND", v, invalid + `Syntax error; token: "<EOF>", near: "AND"`},
		{"a = :v)", v, invalid + `Syntax error; token: ")", near: ":v)"`},
		{"a == :v", v, invalid + `Syntax error; token: "=", near: "== :v"`},
		{"a = b = :v", v, invalid + `Syntax error; token: "=", near: "b = :v"`},
		{"a.:v = :v", v, invalid + `Syntax error; token: ":v", near: ".:v ="`},
		{"a[x] = :v", v, invalid + `Syntax error; token: "x", near: "[x]"`},
		{"attribute_exists()", nil, invalid + `Syntax error; token: ")", near: "()"`},
		{"((a = :v))", v, invalid + "The expression has redundant parentheses;"},
		{"a = ((:v))", v, invalid + "The expression has redundant parentheses;"},
		{"Size(a) = :v", v, invalid + "Invalid function name; function: Size"},
		{"size(a)", nil, invalid + "The function is not allowed to be used this way in an expression; function: size"},
		{"attribute_exists(a) = :v", v, invalid + "The function is not allowed to be used this way in an expression; function: attribute_exists"},
		{"status = :v", v, invalid + "Attribute name is a reserved keyword; reserved keyword: status"},
		{"a = :w", v, invalid + "An expression attribute value used in expression is not defined; attribute value: :w"},
		{"#a = :v", v, invalid + "An expression attribute name used in the document path is not defined; attribute name: #a"},
		{"attribute_exists(a)", v, "Value provided in ExpressionAttributeValues unused in expressions: keys: {:v}"},
		{"attribute_exists(a, b)", nil, invalid + "Incorrect number of operands for operator or function; operator or function: attribute_exists, number of operands: 2"},
		{"attribute_exists(:v)", v, invalid + "Operator or function requires a document path; operator or function: attribute_exists"},
		{"attribute_type(a, :v)", v, invalid + "Incorrect operand type for operator or function; operator or function: attribute_type, operand type: N"},
		{"attribute_type(a, :v)", attrs{":v": str("DOG")}, invalid + "Invalid attribute type name found; type: DOG, valid types: {B,NULL,SS,BOOL,L,BS,N,NS,S,M}"},
		{"begins_with(a, :v)", v, invalid + "Incorrect operand type for operator or function; operator or function: begins_with, operand type: N"},
		{"size(:v) = :v", v, invalid + "Incorrect operand type for operator or function; operator or function: size, operand type: N"},
		{"a < :v", attrs{":v": boolean(true)}, invalid + "Incorrect operand type for operator or function; operator: <, operand type: BOOL"},
		{"a = a", nil, invalid + "The first operand must be distinct from the remaining operands for this operator or function; operator: =, first operand: [a]"},
		{"contains(a.b, a.b)", nil, invalid + "The first operand must be distinct from the remaining operands for this operator or function; operator: contains, first operand: [a, b]"},
		{"a BETWEEN :v AND :w", attrs{":v": num("2"), ":w": num("1")}, invalid + "The BETWEEN operator requires upper bound to be greater than or equal to lower bound; lower bound operand: AttributeValue: {N:2}, upper bound operand: AttributeValue: {N:1}"},
		{"a BETWEEN :v AND :w", attrs{":v": num("2"), ":w": str("x")}, invalid + "The BETWEEN operator requires same data type for lower and upper bounds; lower bound operand: AttributeValue: {N:2}, upper bound operand: AttributeValue: {S:x}"},
		{"p.x = :v", v, "Key attributes must be scalars; list random access '[]' and map lookup '.' are not allowed: Key: p"},
		{"a IN (" + strings.Repeat(":v,", 100) + ":v)", v, invalid + "Incorrect number of operands for operator or function; operator or function: IN, number of operands: 102"},
		{strings.Repeat("a = :v OR ", 500) + "a = :v", v, invalid + "Expression size has exceeded the maximum allowed size; expression size: 5006"},
	}
	for _, tt := range tests {
		_, err := b.PutItem(t.Context(), &dynamodb.PutItemInput{
			TableName: aws.String("items"), Item: key("k"), ConditionExpression: &tt.condition, ExpressionAttributeValues: tt.values,
		})
		if err == nil {
			t.Errorf("%s: accepted", tt.condition)
			continue
		}
		wantError(t, err, "ValidationException", tt.message)
	}
}

func TestTheMostOperators(t *testing.T) {
	t.Parallel()
	b := setup(t, dynamodbemu.Options{})
	// One comparison and 149 times OR and a comparison make 299 operators.
	const fits = 149
	long := func(n int) string { return "a=:v" + strings.Repeat(" OR a=:v", n) }
	if _, err := b.check(t, long(fits), nil, attrs{":v": num("1")}); err != nil {
		t.Error(err)
	}
	_, err := b.check(t, long(fits+1), nil, attrs{":v": num("1")})
	wantError(t, err, "ValidationException", "")
}

func TestPlaceholdersWithoutExpressionsAreRefused(t *testing.T) {
	t.Parallel()
	b := setup(t, dynamodbemu.Options{})
	_, err := b.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: aws.String("items"), Item: key("k"), ExpressionAttributeNames: map[string]string{"#a": "a"}})
	wantError(t, err, "ValidationException", "ExpressionAttributeNames can only be specified when using expressions")
	_, err = b.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: aws.String("items"), Item: key("k"), ExpressionAttributeValues: attrs{":a": num("1")}})
	wantError(t, err, "ValidationException", "ExpressionAttributeValues can only be specified when using expressions: ConditionExpression is null")
	_, err = b.update(t, "SET a = :v", map[string]string{"#a": "a"}, attrs{":v": num("1")})
	wantError(t, err, "ValidationException", "Value provided in ExpressionAttributeNames unused in expressions: keys: {#a}")
	_, err = b.update(t, "SET a = :v", map[string]string{"a": "a"}, attrs{":v": num("1")})
	wantError(t, err, "ValidationException", `ExpressionAttributeNames contains invalid key: Syntax error; key: "a"`)
	_, err = b.update(t, "SET a = :v", map[string]string{}, attrs{":v": num("1")})
	wantError(t, err, "ValidationException", "ExpressionAttributeNames must not be empty")
}
