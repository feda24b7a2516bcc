package dynamodbemu_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/sluice-dev/sluice/localstack/cloud/dynamodbemu"
)

// fill puts items p = "a", s = -1…n into the table "sorted", and one of p = "b".
func fill(t *testing.T, b *bundle, n int) {
	t.Helper()
	for i := n; i >= -1; i-- {
		b.put(t, "sorted", attrs{"p": str("a"), "s": num(strconv.Itoa(i)), "even": boolean(i%2 == 0), "x": str("x" + strconv.Itoa(i))})
	}
	b.put(t, "sorted", attrs{"p": str("b"), "s": num("1")})
}

// sortKeys lists the values of s.
func sortKeys(items []attrs) []string {
	out := []string{}
	for _, it := range items {
		out = append(out, it["s"].(*types.AttributeValueMemberN).Value)
	}
	return out
}

func TestQueryConditions(t *testing.T) {
	t.Parallel()
	b := setup(t, dynamodbemu.Options{})
	fill(t, b, 10)
	b.createTable(t, "words", "p", types.ScalarAttributeTypeS, "s", types.ScalarAttributeTypeS)
	for _, s := range []string{"ab", "a", "b", "abc", "\u00e9", "B"} {
		b.put(t, "words", attrs{"p": str("a"), "s": str(s)})
	}
	tests := []struct {
		table, condition string
		values           attrs
		want             string
	}{
		{"sorted", "p = :p", nil, "-1 0 1 2 3 4 5 6 7 8 9 10"},
		{"sorted", "p = :p AND s = :v", attrs{":v": num("10.0")}, "10"},
		{"sorted", "s < :v AND p = :p", attrs{":v": num("2")}, "-1 0 1"},
		{"sorted", "(p = :p) AND (s <= :v)", attrs{":v": num("0")}, "-1 0"},
		{"sorted", ":v < s AND :p = p", attrs{":v": num("8")}, "9 10"},
		{"sorted", "p = :p AND s >= :v", attrs{":v": num("9.5")}, "10"},
		{"sorted", "p = :p AND s BETWEEN :v AND :w", attrs{":v": num("3"), ":w": num("5")}, "3 4 5"},
		{"sorted", "p = :p AND s = :v", attrs{":v": num("77")}, ""},
		{"words", "p = :p", nil, "B a ab abc b \u00e9"},
		{"words", "p = :p AND begins_with(s, :v)", attrs{":v": str("ab")}, "ab abc"},
	}
	for _, tt := range tests {
		for _, forward := range []bool{true, false} {
			out, err := b.Query(t.Context(), &dynamodb.QueryInput{
				TableName: &tt.table, KeyConditionExpression: &tt.condition, ExpressionAttributeValues: with(attrs{":p": str("a")}, tt.values), ScanIndexForward: &forward,
			})
			if err != nil {
				t.Errorf("%s: %v", tt.condition, err)
				continue
			}
			var got []string
			for _, it := range out.Items {
				got = append(got, strings.Trim(show(it["s"]), `"`))
			}
			want := strings.Fields(tt.want)
			if !forward {
				slices.Reverse(want)
			}
			if !slices.Equal(got, want) || int(out.Count) != len(want) || out.LastEvaluatedKey != nil {
				t.Errorf("%s: got %v, want %v", tt.condition, got, want)
			}
		}
	}
}

func TestQueriesThatAreRefused(t *testing.T) {
	t.Parallel()
	b := setup(t, dynamodbemu.Options{})
	for _, tt := range []struct {
		condition string
		values    attrs
		message   string
	}{
		{"p = :v OR s = :v", attrs{":v": num("1")}, "Invalid operator used in KeyConditionExpression: OR"},
		{"NOT p = :v", attrs{":v": num("1")}, "Invalid operator used in KeyConditionExpression: NOT"},
		{"p IN (:v)", attrs{":v": num("1")}, "Invalid operator used in KeyConditionExpression: IN"},
		{"p <> :v", attrs{":v": num("1")}, "Invalid operator used in KeyConditionExpression: <>"},
		{"attribute_exists(p)", nil, "Invalid operator used in KeyConditionExpression: attribute_exists"},
		{"size(p) = :v", attrs{":v": num("1")}, "KeyConditionExpressions cannot contain nested operations"},
		{"p = s", nil, "Invalid condition in KeyConditionExpression: Multiple attribute names used in one condition"},
		{"p.x = :v", attrs{":v": num("1")}, "KeyConditionExpressions cannot have conditions on nested attributes"},
		{":v = :w", attrs{":v": num("1"), ":w": num("2")}, "Invalid condition in KeyConditionExpression: No key attribute specified"},
		{"p = :v AND p = :w", attrs{":v": str("1"), ":w": str("2")}, "KeyConditionExpressions must only contain one condition per key"},
		{"s = :v", attrs{":v": num("1")}, "Query condition missed key schema element: p"},
		{"p = :v AND x = :v", attrs{":v": str("1")}, "Query condition missed key schema element: s"},
		{"p < :v", attrs{":v": str("1")}, "Query key condition not supported"},
		{"p = :v", attrs{":v": num("1")}, "One or more parameter values were invalid: Condition parameter type does not match schema type"},
		{"p = :v", attrs{":v": str("")}, "One or more parameter values are not valid. The AttributeValue for a key attribute cannot contain an empty string value. Key: p"},
		{"p = :v AND s BETWEEN :w AND :x", attrs{":v": str("1"), ":w": num("2"), ":x": num("1")}, "Invalid KeyConditionExpression: The BETWEEN operator requires upper bound to be greater than or equal to lower bound; lower bound operand: AttributeValue: {N:2}, upper bound operand: AttributeValue: {N:1}"},
		{"p = ", nil, `Invalid KeyConditionExpression: Syntax error; token: "<EOF>", near: "="`},
	} {
		_, err := b.Query(t.Context(), &dynamodb.QueryInput{TableName: aws.String("sorted"), KeyConditionExpression: &tt.condition, ExpressionAttributeValues: tt.values})
		if err == nil {
			t.Errorf("%s: accepted", tt.condition)
			continue
		}
		wantError(t, err, "ValidationException", tt.message)
	}
	query := func(change func(*dynamodb.QueryInput)) error {
		in := &dynamodb.QueryInput{TableName: aws.String("sorted"), KeyConditionExpression: aws.String("p = :p"), ExpressionAttributeValues: attrs{":p": str("a")}}
		change(in)
		_, err := b.Query(t.Context(), in)
		return err
	}
	wantError(t, query(func(in *dynamodb.QueryInput) { in.FilterExpression = aws.String("s = :p") }), "ValidationException",
		"Filter Expression can only contain non-primary key attributes: Primary key attribute: s")
	wantError(t, query(func(in *dynamodb.QueryInput) { in.IndexName = aws.String("gsi") }), "ValidationException", "The table does not have the specified index: gsi")
	wantError(t, query(func(in *dynamodb.QueryInput) { in.ExclusiveStartKey = attrs{"p": str("b"), "s": num("1")} }), "ValidationException",
		"The provided starting key is outside query boundaries based on provided conditions")
	wantError(t, query(func(in *dynamodb.QueryInput) { in.ExclusiveStartKey = attrs{"p": str("a")} }), "ValidationException",
		"The provided starting key is invalid: The provided key element does not match the schema")
	wantError(t, query(func(in *dynamodb.QueryInput) { in.Limit = aws.Int32(0) }), "ValidationException",
		"1 validation error detected: Value '0' at 'limit' failed to satisfy constraint: Member must have value greater than or equal to 1")
	wantError(t, query(func(in *dynamodb.QueryInput) { in.TableName = aws.String("nowhere") }), "ResourceNotFoundException", "Requested resource not found")
}

func TestQueryPagesCoverEveryItemOnce(t *testing.T) {
	t.Parallel()
	b := setup(t, dynamodbemu.Options{})
	fill(t, b, 6)
	for limit := int32(1); limit <= 9; limit++ {
		for _, forward := range []bool{true, false} {
			var got []string
			var scanned int32
			pages := dynamodb.NewQueryPaginator(b, &dynamodb.QueryInput{
				TableName: aws.String("sorted"), KeyConditionExpression: aws.String("p = :p AND s >= :z"), FilterExpression: aws.String("even = :t"),
				ExpressionAttributeValues: attrs{":p": str("a"), ":z": num("0"), ":t": boolean(true)}, Limit: &limit, ScanIndexForward: &forward,
			})
			for pages.HasMorePages() {
				page, err := pages.NextPage(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				if page.ScannedCount > limit {
					t.Errorf("scanned %d of at most %d", page.ScannedCount, limit)
				}
				scanned += page.ScannedCount
				got = append(got, sortKeys(page.Items)...)
			}
			want := []string{"0", "2", "4", "6"}
			if !forward {
				slices.Reverse(want)
			}
			if !slices.Equal(got, want) || scanned != 7 {
				t.Errorf("limit %d, forward %t: got %v, scanned %d", limit, forward, got, scanned)
			}
		}
	}
}

func TestAPageThatEndsAtItsLimitHasAKey(t *testing.T) {
	t.Parallel()
	b := setup(t, dynamodbemu.Options{})
	b.put(t, "items", key("only"))
	out, err := b.Scan(t.Context(), &dynamodb.ScanInput{TableName: aws.String("items"), Limit: aws.Int32(1)})
	if err != nil || out.LastEvaluatedKey == nil {
		t.Fatalf("got %v, %v", out, err)
	}
	out, err = b.Scan(t.Context(), &dynamodb.ScanInput{TableName: aws.String("items"), Limit: aws.Int32(1), ExclusiveStartKey: out.LastEvaluatedKey})
	if err != nil || out.LastEvaluatedKey != nil || out.Count != 0 {
		t.Fatalf("got %v, %v", out, err)
	}
}

func TestSelectAndProjection(t *testing.T) {
	t.Parallel()
	b := setup(t, dynamodbemu.Options{})
	fill(t, b, 3)
	in := func(choice types.Select, projection *string) *dynamodb.QueryInput {
		return &dynamodb.QueryInput{
			TableName: aws.String("sorted"), KeyConditionExpression: aws.String("p = :p"), ExpressionAttributeValues: attrs{":p": str("a")},
			Select: choice, ProjectionExpression: projection,
		}
	}
	out, err := b.Query(t.Context(), in(types.SelectCount, nil))
	if err != nil || out.Items != nil || out.Count != 5 || out.ScannedCount != 5 {
		t.Errorf("got %v, %v", out, err)
	}
	for _, choice := range []types.Select{"", types.SelectSpecificAttributes} {
		out, err = b.Query(t.Context(), in(choice, aws.String("s, absent")))
		if err != nil || len(out.Items) != 5 {
			t.Fatalf("got %v, %v", out, err)
		}
		wantItem(t, out.Items[0], attrs{"s": num("-1")})
	}
	_, err = b.Query(t.Context(), in(types.SelectCount, aws.String("s")))
	wantError(t, err, "ValidationException", "Cannot specify the ProjectionExpression when choosing to get only the Count")
	_, err = b.Query(t.Context(), in(types.SelectSpecificAttributes, nil))
	wantError(t, err, "ValidationException", "Must specify the AttributesToGet or ProjectionExpression when choosing to get SPECIFIC_ATTRIBUTES")
	_, err = b.Query(t.Context(), in("", aws.String("s, s")))
	wantError(t, err, "ValidationException", "Invalid ProjectionExpression: Two document paths overlap with each other; must remove or rewrite one of these paths; path one: [s], path two: [s]")
}

func TestProjectionsKeepTheShape(t *testing.T) {
	t.Parallel()
	b := setup(t, dynamodbemu.Options{})
	b.put(t, "items", with(key("k"), attrs{
		"m": dict(attrs{"x": num("1"), "y": num("2"), "d.t": num("3")}), "l": list(num("0"), list(num("1"), num("2")), num("3")), "n": num("9"),
	}))
	for projection, want := range map[string]attrs{
		"m.x, n":          {"m": dict(attrs{"x": num("1")}), "n": num("9")},
		"m.#d":            {"m": dict(attrs{"d.t": num("3")})},
		"l[2], l[0]":      {"l": list(num("0"), num("3"))},
		"l[1][1], m":      {"l": list(list(num("2"))), "m": dict(attrs{"x": num("1"), "y": num("2"), "d.t": num("3")})},
		"l[7], m.q, n[0]": {},
		"p":               {"p": str("k")},
	} {
		in := &dynamodb.GetItemInput{TableName: aws.String("items"), Key: key("k"), ProjectionExpression: &projection}
		if strings.Contains(projection, "#d") {
			in.ExpressionAttributeNames = map[string]string{"#d": "d.t"}
		}
		out, err := b.GetItem(t.Context(), in)
		if err != nil {
			t.Errorf("%s: %v", projection, err)
			continue
		}
		if out.Item == nil {
			t.Errorf("%s: the item is there, but got none", projection)
		}
		wantItem(t, out.Item, want)
	}
	_, err := b.GetItem(t.Context(), &dynamodb.GetItemInput{TableName: aws.String("items"), Key: key("k"), ProjectionExpression: aws.String("name")})
	wantError(t, err, "ValidationException", "Invalid ProjectionExpression: Attribute name is a reserved keyword; reserved keyword: name")
}

func TestScanPagesAndSegmentsCoverEveryItemOnce(t *testing.T) {
	t.Parallel()
	b := setup(t, dynamodbemu.Options{})
	const partitions, perPartition = 25, 4
	for i := range partitions * perPartition {
		b.put(t, "sorted", attrs{"p": str(fmt.Sprint("p", i%partitions)), "s": num(strconv.Itoa(i)), "odd": boolean(i%2 == 1)})
	}
	for _, segments := range []int32{0, 1, 2, 3, 7, 50} {
		for _, limit := range []int32{1, 3, 100, 1000} {
			seen := map[string]int{}
			for segment := range max(segments, 1) {
				in := &dynamodb.ScanInput{TableName: aws.String("sorted"), Limit: &limit, FilterExpression: aws.String("odd = :t"), ExpressionAttributeValues: attrs{":t": boolean(true)}}
				if segments > 0 {
					in.Segment, in.TotalSegments = aws.Int32(segment), aws.Int32(segments)
				}
				pages := dynamodb.NewScanPaginator(b, in)
				for pages.HasMorePages() {
					page, err := pages.NextPage(t.Context())
					if err != nil {
						t.Fatal(err)
					}
					for _, s := range sortKeys(page.Items) {
						seen[s]++
					}
				}
			}
			if len(seen) != partitions*perPartition/2 {
				t.Errorf("%d segments, limit %d: saw %d items", segments, limit, len(seen))
			}
			for s, n := range seen {
				if n != 1 {
					t.Errorf("%d segments, limit %d: saw %s %d times", segments, limit, s, n)
				}
			}
		}
	}
	_, err := b.Scan(t.Context(), &dynamodb.ScanInput{TableName: aws.String("sorted"), Segment: aws.Int32(2), TotalSegments: aws.Int32(2)})
	wantError(t, err, "ValidationException", "The Segment parameter is zero-based and must be less than parameter TotalSegments: Segment: 2 is not less than TotalSegments: 2")
	_, err = b.Scan(t.Context(), &dynamodb.ScanInput{TableName: aws.String("sorted"), Segment: aws.Int32(0)})
	wantError(t, err, "ValidationException", "The TotalSegments parameter is required but was not present in the request when Segment parameter is present")
}

func TestAScanSurvivesDeletionsBetweenPages(t *testing.T) {
	t.Parallel()
	b := setup(t, dynamodbemu.Options{})
	for i := range 30 {
		b.put(t, "items", key(strconv.Itoa(i)))
	}
	seen := map[string]bool{}
	var start attrs
	for {
		out, err := b.Scan(t.Context(), &dynamodb.ScanInput{TableName: aws.String("items"), Limit: aws.Int32(4), ExclusiveStartKey: start})
		if err != nil {
			t.Fatal(err)
		}
		for _, it := range out.Items {
			seen[show(it["p"])] = true
			if _, err := b.DeleteItem(t.Context(), &dynamodb.DeleteItemInput{TableName: aws.String("items"), Key: it}); err != nil {
				t.Fatal(err)
			}
		}
		if start = out.LastEvaluatedKey; start == nil {
			break
		}
	}
	if len(seen) != 30 {
		t.Errorf("saw %d of 30", len(seen))
	}
}

func TestAPageEndsAtOneMegabyte(t *testing.T) {
	t.Parallel()
	b := setup(t, dynamodbemu.Options{})
	for i := range 7 {
		b.put(t, "sorted", attrs{"p": str("a"), "s": num(strconv.Itoa(i)), "x": str(strings.Repeat("x", 300<<10))})
	}
	out, err := b.Query(t.Context(), &dynamodb.QueryInput{
		TableName: aws.String("sorted"), KeyConditionExpression: aws.String("p = :p"), ExpressionAttributeValues: attrs{":p": str("a")},
		ConsistentRead: aws.Bool(true), ReturnConsumedCapacity: types.ReturnConsumedCapacityTotal,
	})
	if err != nil {
		t.Fatal(err)
	}
	if out.Count != 4 || out.LastEvaluatedKey == nil || aws.ToFloat64(out.ConsumedCapacity.CapacityUnits) != 301 {
		t.Errorf("got %d items, key %v, %v units", out.Count, out.LastEvaluatedKey, aws.ToFloat64(out.ConsumedCapacity.CapacityUnits))
	}
}
