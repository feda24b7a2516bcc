package dynamodbemu_test

import (
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/sluice-dev/sluice/localstack/cloud/dynamodbemu"
)

func TestUpdateExpressions(t *testing.T) {
	t.Parallel()
	old := attrs{
		"a": num("1"), "b": num("20"), "s": str("x"), "l": list(num("0"), num("1"), num("2"), num("3")),
		"m": dict(attrs{"x": num("7"), "in": dict(attrs{"y": num("8")})}), "ns": numSet("1", "2"), "ss": strSet("u"), "d.t": num("9"),
		"lm": list(dict(attrs{"z": num("1")})),
	}
	tests := map[string]struct {
		expression string
		names      map[string]string
		values     attrs
		change     attrs // a nil value means removed
	}{
		"a literal":                   {"SET n = :v", nil, attrs{":v": str("new")}, attrs{"n": str("new")}},
		"plus":                        {"SET a = a + :v", nil, attrs{":v": num("0.1")}, attrs{"a": num("1.1")}},
		"minus":                       {"set a = :v - b", nil, attrs{":v": num("5")}, attrs{"a": num("-15")}},
		"in parentheses":              {"SET a = (a + :v)", nil, attrs{":v": num("1")}, attrs{"a": num("2")}},
		"attribute to attribute":      {"SET a = b", nil, nil, attrs{"a": num("20")}},
		"a swap sees the old item":    {"SET a = b, b = a", nil, nil, attrs{"a": num("20"), "b": num("1")}},
		"a shift sees the old item":   {"SET r0 = :v, r1 = a, r2 = b", nil, attrs{":v": num("0")}, attrs{"r0": num("0"), "r1": num("1"), "r2": num("20")}},
		"SET from what REMOVE drops":  {"REMOVE a SET c = a", nil, nil, attrs{"a": nil, "c": num("1")}},
		"if_not_exists, present":      {"SET a = if_not_exists(a, :v)", nil, attrs{":v": num("9")}, attrs{"a": num("1")}},
		"if_not_exists, absent":       {"SET q = if_not_exists(q, :v)", nil, attrs{":v": num("9")}, attrs{"q": num("9")}},
		"if_not_exists of another":    {"SET q = if_not_exists(zz, b)", nil, nil, attrs{"q": num("20")}},
		"if_not_exists plus":          {"SET q = if_not_exists(q, :zero) + :v", nil, attrs{":zero": num("0"), ":v": num("3")}, attrs{"q": num("3")}},
		"if_not_exists in a function": {"SET q = list_append(if_not_exists(q, :e), :v)", nil, attrs{":e": list(), ":v": list(num("1"))}, attrs{"q": list(num("1"))}},
		"list_append":                 {"SET l = list_append(:v, l)", nil, attrs{":v": list(str("h"))}, attrs{"l": list(str("h"), num("0"), num("1"), num("2"), num("3"))}},
		"a list element":              {"SET l[1] = :v", nil, attrs{":v": str("h")}, attrs{"l": list(num("0"), str("h"), num("2"), num("3"))}},
		"beyond the end appends":      {"SET l[90] = :y, l[50] = :x", nil, attrs{":x": num("50"), ":y": num("90")}, attrs{"l": list(num("0"), num("1"), num("2"), num("3"), num("50"), num("90"))}},
		"list indexes are old ones":   {"REMOVE l[0], l[2] SET l[3] = :v", nil, attrs{":v": num("33")}, attrs{"l": list(num("1"), num("33"))}},
		"within a map":                {"SET m.x = m.x + m.#in.y", map[string]string{"#in": "in"}, nil, attrs{"m": dict(attrs{"x": num("15"), "in": dict(attrs{"y": num("8")})})}},
		"within a list within":        {"SET lm[0].z = :v", nil, attrs{":v": num("2")}, attrs{"lm": list(dict(attrs{"z": num("2")}))}},
		"a name with a dot":           {"SET #d = #d + :v", map[string]string{"#d": "d.t"}, attrs{":v": num("1")}, attrs{"d.t": num("10")}},
		"placeholders that are alike": {"SET #p1 = :v1, #p10 = :v10", map[string]string{"#p1": "x1", "#p10": "x10"}, attrs{":v1": num("1"), ":v10": num("10")}, attrs{"x1": num("1"), "x10": num("10")}},
		"a reserved word by name":     {"SET #ttl = :v", map[string]string{"#ttl": "ttl"}, attrs{":v": num("1")}, attrs{"ttl": num("1")}},
		"REMOVE":                      {"REMOVE a, nothing, m.x, l[7]", nil, nil, attrs{"a": nil, "m": dict(attrs{"in": dict(attrs{"y": num("8")})})}},
		"ADD a number":                {"ADD a :v, q :v", nil, attrs{":v": num("-3")}, attrs{"a": num("-2"), "q": num("-3")}},
		"ADD to a set":                {"ADD ns :v, q :v", nil, attrs{":v": numSet("2.0", "3")}, attrs{"ns": numSet("1", "2", "3"), "q": numSet("2", "3")}},
		"ADD within a map":            {"ADD m.x :v", nil, attrs{":v": num("1")}, attrs{"m": dict(attrs{"x": num("8"), "in": dict(attrs{"y": num("8")})})}},
		"DELETE from a set":           {"DELETE ns :v, nothing :v", nil, attrs{":v": numSet("2", "5")}, attrs{"ns": numSet("1")}},
		"DELETE of the last member":   {"DELETE ss :v", nil, attrs{":v": strSet("u")}, attrs{"ss": nil}},
		"all sections in any order":   {"DELETE ns :d ADD a :o REMOVE s SET n = a", nil, attrs{":d": numSet("1"), ":o": num("1")}, attrs{"ns": numSet("2"), "a": num("2"), "s": nil, "n": num("1")}},
		"any spacing":                 {"SET\n a=a+:v ,\tb =b-:v", nil, attrs{":v": num("1")}, attrs{"a": num("2"), "b": num("19")}},
		"big numbers are exact":       {"SET a = :v + a", nil, attrs{":v": num("90071992547409939007199254740993")}, attrs{"a": num("90071992547409939007199254740994")}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t, dynamodbemu.Options{})
			b.put(t, "items", with(key("k"), old))
			want := with(key("k"), with(old, tt.change))
			for k, v := range tt.change {
				if v == nil {
					delete(want, k)
				}
			}
			got, err := b.update(t, tt.expression, tt.names, tt.values)
			if err != nil {
				t.Fatal(err)
			}
			wantItem(t, got, want)
			wantItem(t, b.get(t, "items", key("k")), want)
		})
	}
}

func TestUpdateExpressionsThatAreRefused(t *testing.T) {
	t.Parallel()
	const invalid = "Invalid UpdateExpression: "
	old := attrs{"p": str("k"), "a": num("1"), "s": str("x"), "l": list(num("1")), "m": dict(attrs{"x": num("1")}), "ns": numSet("1")}
	tests := map[string]struct {
		expression string
		values     attrs
		message    string
	}{
		"empty":                          {"", nil, invalid + "The expression can not be empty;"},
		"no section":                     {"INVALID SYNTAX HERE", nil, invalid + `Syntax error; token: "INVALID", near: "INVALID SYNTAX"`},
		"three summands":                 {"SET a = a + :v + :v", attrs{":v": num("1")}, invalid + `Syntax error; token: "+", near: ":v + :v"`},
		"a summand in parentheses":       {"SET a = a + (a + :v)", attrs{":v": num("1")}, invalid + `Syntax error; token: "(", near: "+ (a"`},
		"more behind parentheses":        {"SET a = (a + :v) - :v", attrs{":v": num("1")}, invalid + `Syntax error; token: "-", near: ") - :v"`},
		"a sum in a function":            {"SET a = if_not_exists(a, (a + :v))", attrs{":v": num("1")}, invalid + `Syntax error; token: "(", near: ", (a"`},
		"cut off":                        {"SET a = ", nil, invalid + `Syntax error; token: "<EOF>", near: "="`},
		"a strange character":            {"SET a = :v * a", attrs{":v": num("1")}, invalid + `Syntax error; token: "*", near: ":v *"`},
		"a number literal":               {"SET a = 1", nil, invalid + `Syntax error; token: "1", near: "= 1"`},
		"ADD of an attribute":            {"ADD a s", nil, invalid + `Syntax error; token: "s", near: "a s"`},
		"a section twice":                {"SET a = :v SET b = :v", attrs{":v": num("1")}, invalid + `The "SET" section can only be used once in an update expression;`},
		"a reserved word":                {"SET ttl = :v", attrs{":v": num("1")}, invalid + "Attribute name is a reserved keyword; reserved keyword: ttl"},
		"a reserved word within":         {"SET m.Value = :v", attrs{":v": num("1")}, invalid + "Attribute name is a reserved keyword; reserved keyword: Value"},
		"an undefined value":             {"SET a = :v", nil, invalid + "An expression attribute value used in expression is not defined; attribute value: :v"},
		"an undefined name":              {"SET #a = :v", attrs{":v": num("1")}, invalid + "An expression attribute name used in the document path is not defined; attribute name: #a"},
		"an unused value":                {"SET a = :v", attrs{":v": num("1"), ":w": num("1"), ":x": num("1")}, "Value provided in ExpressionAttributeValues unused in expressions: keys: {:w, :x}"},
		"a path twice":                   {"SET a = :v, a = :v", attrs{":v": num("1")}, invalid + "Two document paths overlap with each other; must remove or rewrite one of these paths; path one: [a], path two: [a]"},
		"a path within another":          {"SET m = :v REMOVE m.x", attrs{":v": num("1")}, invalid + "Two document paths overlap with each other; must remove or rewrite one of these paths; path one: [m], path two: [m, x]"},
		"a list that is a map":           {"SET l[0] = :v, l.x = :v", attrs{":v": num("1")}, invalid + "Two document paths conflict with each other; must remove or rewrite one of these paths; path one: [l, [0]], path two: [l, x]"},
		"an unknown function":            {"SET a = max(a, :v)", attrs{":v": num("1")}, invalid + "Invalid function name; function: max"},
		"functions have case":            {"SET a = IF_NOT_EXISTS(a, :v)", attrs{":v": num("1")}, invalid + "Invalid function name; function: IF_NOT_EXISTS"},
		"the number of operands":         {"SET a = if_not_exists(a)", nil, invalid + "Incorrect number of operands for operator or function; operator or function: if_not_exists, number of operands: 1"},
		"if_not_exists of a value":       {"SET a = if_not_exists(:v, :v)", attrs{":v": num("1")}, invalid + "Operator or function requires a document path; operator or function: if_not_exists"},
		"plus a string":                  {"SET a = a + :v", attrs{":v": str("1")}, invalid + "Incorrect operand type for operator or function; operator or function: +, operand type: S"},
		"list_append of a number":        {"SET l = list_append(l, :v)", attrs{":v": num("1")}, invalid + "Incorrect operand type for operator or function; operator or function: list_append, operand type: N"},
		"ADD a string":                   {"ADD a :v", attrs{":v": str("1")}, invalid + "Incorrect operand type for operator or function; operator: ADD, operand type: STRING"},
		"DELETE a number":                {"DELETE a :v", attrs{":v": num("1")}, invalid + "Incorrect operand type for operator or function; operator: DELETE, operand type: NUMBER"},
		"the key":                        {"SET p = :v", attrs{":v": str("1")}, "One or more parameter values were invalid: Cannot update attribute p. This attribute is part of the key"},
		"REMOVE of the key":              {"REMOVE p", nil, "One or more parameter values were invalid: Cannot update attribute p. This attribute is part of the key"},
		"a missing attribute":            {"SET b = gone", nil, "The provided expression refers to an attribute that does not exist in the item"},
		"a missing summand":              {"SET a = a + gone", nil, "The provided expression refers to an attribute that does not exist in the item"},
		"a summand of another type":      {"SET a = a + s", nil, "An operand in the update expression has an incorrect data type"},
		"ADD to another type":            {"ADD s :v", attrs{":v": num("1")}, "An operand in the update expression has an incorrect data type"},
		"ADD of another set":             {"ADD ns :v", attrs{":v": strSet("1")}, "An operand in the update expression has an incorrect data type"},
		"DELETE from another type":       {"DELETE a :v", attrs{":v": numSet("1")}, "An operand in the update expression has an incorrect data type"},
		"a path without its map":         {"SET q.x = :v", attrs{":v": num("1")}, "The document path provided in the update expression is invalid for update"},
		"a path through a scalar":        {"SET a.x = :v", attrs{":v": num("1")}, "The document path provided in the update expression is invalid for update"},
		"an index into a map":            {"SET m[0] = :v", attrs{":v": num("1")}, "The document path provided in the update expression is invalid for update"},
		"REMOVE without its map":         {"REMOVE q.x", nil, "The document path provided in the update expression is invalid for update"},
		"a sum of 39 digits":             {"SET a = a + :v", attrs{":v": num("12345678901234567890123456789012345678e1")}, "Number overflow. Attempting to store a number with magnitude larger than supported range"},
		"a value of 39 digits":           {"SET a = :v", attrs{":v": num("123456789012345678901234567890123456789")}, "ExpressionAttributeValues contains invalid value: Attempting to store more than 38 significant digits in a Number for key :v"},
		"a value that is no number":      {"SET a = :v", attrs{":v": num("1O")}, "ExpressionAttributeValues contains invalid value: The parameter cannot be converted to a numeric value: 1O for key :v"},
		"a value without a colon":        {"SET a = :v", attrs{"v": num("1")}, `ExpressionAttributeValues contains invalid key: Syntax error; key: "v"`},
		"an empty map of values":         {"REMOVE a", attrs{}, "ExpressionAttributeValues must not be empty"},
		"an empty set":                   {"SET a = :v", attrs{":v": numSet()}, "ExpressionAttributeValues contains invalid value: One or more parameter values were invalid: An number set  may not be empty for key :v"},
		"a set with duplicates":          {"SET a = :v", attrs{":v": numSet("1", "1.0")}, "ExpressionAttributeValues contains invalid value: Input collection contains duplicates for key :v"},
		"a set with equal strings":       {"SET a = :v", attrs{":v": strSet("x", "x")}, "ExpressionAttributeValues contains invalid value: One or more parameter values were invalid: Input collection [x, x] contains duplicates. for key :v"},
		"a set with equal binaries":      {"SET a = :v", attrs{":v": binSet("x", "x")}, "ExpressionAttributeValues contains invalid value: One or more parameter values were invalid: Input collection of type BS contains duplicates. for key :v"},
		"an empty set of binaries":       {"SET a = :v", attrs{":v": binSet()}, "ExpressionAttributeValues contains invalid value: One or more parameter values were invalid: Binary sets should not be empty for key :v"},
		"redundant parentheses":          {"SET a = ((a + :v))", attrs{":v": num("1")}, invalid + "The expression has redundant parentheses;"},
		"a number in place of the value": {"SET a = :v.x", attrs{":v": num("1")}, invalid + `Syntax error; token: ".", near: ":v.x"`},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t, dynamodbemu.Options{})
			b.put(t, "items", old)
			_, err := b.update(t, tt.expression, nil, tt.values)
			wantError(t, err, "ValidationException", tt.message)
			wantItem(t, b.get(t, "items", key("k")), old)
		})
	}
}

func TestUpdateOfAnAbsentItem(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		expression *string
		values     attrs
		want       attrs
	}{
		"SET creates it":            {aws.String("SET a = :v"), attrs{":v": num("1")}, attrs{"p": str("k"), "a": num("1")}},
		"ADD creates it":            {aws.String("ADD a :v"), attrs{":v": num("1")}, attrs{"p": str("k"), "a": num("1")}},
		"no expression creates it":  {nil, nil, attrs{"p": str("k")}},
		"SET may read the key":      {aws.String("SET a = p"), nil, attrs{"p": str("k"), "a": str("k")}},
		"REMOVE does not create it": {aws.String("REMOVE a"), nil, nil},
		"DELETE does not create it": {aws.String("DELETE a :v"), attrs{":v": numSet("1")}, nil},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t, dynamodbemu.Options{})
			out, err := b.UpdateItem(t.Context(), &dynamodb.UpdateItemInput{
				TableName: aws.String("items"), Key: key("k"), UpdateExpression: tt.expression, ExpressionAttributeValues: tt.values,
				ReturnValues: types.ReturnValueAllNew,
			})
			if err != nil {
				t.Fatal(err)
			}
			wantItem(t, out.Attributes, tt.want)
			wantItem(t, b.get(t, "items", key("k")), tt.want)
		})
	}
}

func TestReturnValues(t *testing.T) {
	t.Parallel()
	old := attrs{"p": str("k"), "a": num("1"), "b": str("b"), "m": dict(attrs{"x": num("1"), "l": list(num("1"), num("2"), num("3"))})}
	tests := map[string]struct {
		expression string
		values     attrs
		which      types.ReturnValue
		want       attrs
	}{
		"NONE":                                 {"SET a = :v", attrs{":v": num("2")}, types.ReturnValueNone, nil},
		"ALL_OLD":                              {"SET a = :v", attrs{":v": num("2")}, types.ReturnValueAllOld, old},
		"ALL_NEW":                              {"SET a = :v", attrs{":v": num("2")}, types.ReturnValueAllNew, with(old, attrs{"a": num("2")})},
		"UPDATED_OLD":                          {"SET a = :v, c = :v", attrs{":v": num("2")}, types.ReturnValueUpdatedOld, attrs{"a": num("1")}},
		"UPDATED_OLD of new attributes":        {"SET c = :v", attrs{":v": num("2")}, types.ReturnValueUpdatedOld, nil},
		"UPDATED_OLD of what was removed":      {"REMOVE a", nil, types.ReturnValueUpdatedOld, attrs{"a": num("1")}},
		"UPDATED_NEW":                          {"SET a = a + :v, c = :v REMOVE b", attrs{":v": num("2")}, types.ReturnValueUpdatedNew, attrs{"a": num("3"), "c": num("2")}},
		"UPDATED_NEW of what was removed":      {"REMOVE a", nil, types.ReturnValueUpdatedNew, nil},
		"UPDATED_NEW within a map":             {"SET m.x = :v", attrs{":v": num("2")}, types.ReturnValueUpdatedNew, attrs{"m": dict(attrs{"x": num("2")})}},
		"UPDATED_OLD of list elements":         {"SET m.l[2] = :v, m.x = :v", attrs{":v": num("9")}, types.ReturnValueUpdatedOld, attrs{"m": dict(attrs{"x": num("1"), "l": list(num("3"))})}},
		"UPDATED_NEW beyond the end":           {"SET m.l[50] = :v", attrs{":v": num("9")}, types.ReturnValueUpdatedNew, nil},
		"UPDATED_NEW shows what moved up":      {"REMOVE m.l[1]", nil, types.ReturnValueUpdatedNew, attrs{"m": dict(attrs{"l": list(num("3"))})}},
		"UPDATED_NEW is there without changes": {"SET a = a", nil, types.ReturnValueUpdatedNew, attrs{"a": num("1")}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t, dynamodbemu.Options{})
			b.put(t, "items", old)
			out, err := b.UpdateItem(t.Context(), &dynamodb.UpdateItemInput{
				TableName: aws.String("items"), Key: key("k"), UpdateExpression: &tt.expression, ExpressionAttributeValues: tt.values, ReturnValues: tt.which,
			})
			if err != nil {
				t.Fatal(err)
			}
			wantItem(t, out.Attributes, tt.want)
		})
	}
}

func TestPutAndDeleteReturnOnlyTheOldItem(t *testing.T) {
	t.Parallel()
	b := setup(t, dynamodbemu.Options{})
	put, err := b.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: aws.String("items"), Item: attrs{"p": str("k"), "a": num("1")}, ReturnValues: types.ReturnValueAllOld})
	if err != nil || put.Attributes != nil {
		t.Fatalf("got %v, %v", put, err)
	}
	put, err = b.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: aws.String("items"), Item: attrs{"p": str("k"), "b": num("2")}, ReturnValues: types.ReturnValueAllOld})
	if err != nil {
		t.Fatal(err)
	}
	wantItem(t, put.Attributes, attrs{"p": str("k"), "a": num("1")})
	_, err = b.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: aws.String("items"), Item: key("k"), ReturnValues: types.ReturnValueAllNew})
	wantError(t, err, "ValidationException", "ReturnValues can only be ALL_OLD or NONE")
	for _, want := range []attrs{{"p": str("k"), "b": num("2")}, nil} {
		deleted, err := b.DeleteItem(t.Context(), &dynamodb.DeleteItemInput{TableName: aws.String("items"), Key: key("k"), ReturnValues: types.ReturnValueAllOld})
		if err != nil {
			t.Fatal(err)
		}
		wantItem(t, deleted.Attributes, want)
	}
}
