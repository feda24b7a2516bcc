package dynamodbemu_test

import (
	"errors"
	"fmt"
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

func TestTheLifeOfATable(t *testing.T) {
	t.Parallel()
	b := setup(t, dynamodbemu.Options{Region: "eu-west-3", AccountID: "111122223333"})
	name := aws.String("my-table_1.x")
	in := &dynamodb.CreateTableInput{
		TableName: name, BillingMode: types.BillingModePayPerRequest,
		AttributeDefinitions: []types.AttributeDefinition{{AttributeName: aws.String("h"), AttributeType: types.ScalarAttributeTypeB}},
		KeySchema:            []types.KeySchemaElement{{AttributeName: aws.String("h"), KeyType: types.KeyTypeHash}},
		Tags:                 []types.Tag{{Key: aws.String("team"), Value: aws.String("a")}},
	}
	if _, err := b.CreateTable(t.Context(), in); err != nil {
		t.Fatal(err)
	}
	_, err := b.CreateTable(t.Context(), in)
	wantError(t, err, "ResourceInUseException", "Table already exists: my-table_1.x")
	if err := dynamodb.NewTableExistsWaiter(b).Wait(t.Context(), &dynamodb.DescribeTableInput{TableName: name}, time.Minute); err != nil {
		t.Fatal(err)
	}
	b.put(t, *name, attrs{"h": binary("x"), "n": num("12")})
	out, err := b.DescribeTable(t.Context(), &dynamodb.DescribeTableInput{TableName: name})
	if err != nil {
		t.Fatal(err)
	}
	d := out.Table
	arn := "arn:aws:dynamodb:eu-west-3:111122223333:table/my-table_1.x"
	if d.TableStatus != types.TableStatusActive || *d.TableArn != arn || *d.ItemCount != 1 || *d.TableSizeBytes != 5 ||
		d.BillingModeSummary.BillingMode != types.BillingModePayPerRequest || *d.KeySchema[0].AttributeName != "h" || time.Since(*d.CreationDateTime) > time.Hour {
		t.Errorf("got %+v", d)
	}
	for _, tag := range []types.Tag{{Key: aws.String("team"), Value: aws.String("b")}, {Key: aws.String("env"), Value: aws.String("")}} {
		if _, err := b.TagResource(t.Context(), &dynamodb.TagResourceInput{ResourceArn: &arn, Tags: []types.Tag{tag}}); err != nil {
			t.Fatal(err)
		}
	}
	tags, err := b.ListTagsOfResource(t.Context(), &dynamodb.ListTagsOfResourceInput{ResourceArn: &arn})
	if err != nil || len(tags.Tags) != 2 || *tags.Tags[1].Value != "b" {
		t.Errorf("got %v, %v", tags, err)
	}
	if _, err := b.UntagResource(t.Context(), &dynamodb.UntagResourceInput{ResourceArn: &arn, TagKeys: []string{"team"}}); err != nil {
		t.Fatal(err)
	}
	if tags, err = b.ListTagsOfResource(t.Context(), &dynamodb.ListTagsOfResourceInput{ResourceArn: &arn}); err != nil || len(tags.Tags) != 1 {
		t.Errorf("got %v, %v", tags, err)
	}
	_, err = b.ListTagsOfResource(t.Context(), &dynamodb.ListTagsOfResourceInput{ResourceArn: aws.String(arn + "x")})
	wantError(t, err, "ResourceNotFoundException", "")
	if _, err := b.GetItem(t.Context(), &dynamodb.GetItemInput{TableName: &arn, Key: attrs{"h": binary("x")}}); err != nil {
		t.Errorf("a table's ARN is a name, too: %v", err)
	}
	if _, err := b.DeleteTable(t.Context(), &dynamodb.DeleteTableInput{TableName: name}); err != nil {
		t.Fatal(err)
	}
	_, err = b.DescribeTable(t.Context(), &dynamodb.DescribeTableInput{TableName: name})
	wantError(t, err, "ResourceNotFoundException", "Requested resource not found: Table: my-table_1.x not found")
	_, err = b.DeleteTable(t.Context(), &dynamodb.DeleteTableInput{TableName: name})
	wantError(t, err, "ResourceNotFoundException", "Requested resource not found: Table: my-table_1.x not found")
}

func TestADeletedTableTakesItsItemsAlong(t *testing.T) {
	t.Parallel()
	b := setup(t, dynamodbemu.Options{})
	b.put(t, "items", key("k"))
	if _, err := b.DeleteTable(t.Context(), &dynamodb.DeleteTableInput{TableName: aws.String("items")}); err != nil {
		t.Fatal(err)
	}
	b.createTable(t, "items", "p", types.ScalarAttributeTypeS)
	wantItem(t, b.get(t, "items", key("k")), nil)
}

func TestDeletionProtection(t *testing.T) {
	t.Parallel()
	b := setup(t, dynamodbemu.Options{})
	protect := func(on bool) {
		t.Helper()
		if _, err := b.UpdateTable(t.Context(), &dynamodb.UpdateTableInput{TableName: aws.String("items"), DeletionProtectionEnabled: &on}); err != nil {
			t.Fatal(err)
		}
	}
	protect(true)
	_, err := b.DeleteTable(t.Context(), &dynamodb.DeleteTableInput{TableName: aws.String("items")})
	wantError(t, err, "ValidationException", "")
	protect(false)
	if _, err := b.DeleteTable(t.Context(), &dynamodb.DeleteTableInput{TableName: aws.String("items")}); err != nil {
		t.Fatal(err)
	}
}

func TestListTablesPages(t *testing.T) {
	t.Parallel()
	b := setup(t, dynamodbemu.Options{})
	for i := range 5 {
		b.createTable(t, fmt.Sprint("table-", i), "p", types.ScalarAttributeTypeS)
	}
	var names []string
	pages := dynamodb.NewListTablesPaginator(b, &dynamodb.ListTablesInput{Limit: aws.Int32(3)})
	for pages.HasMorePages() {
		page, err := pages.NextPage(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, page.TableNames...)
	}
	if got := strings.Join(names, " "); got != "items sorted table-0 table-1 table-2 table-3 table-4" {
		t.Errorf("got %s", got)
	}
}

func TestTablesThatAreRefused(t *testing.T) {
	t.Parallel()
	b := setup(t, dynamodbemu.Options{})
	for name, tt := range map[string]struct {
		change  func(*dynamodb.CreateTableInput)
		message string
	}{
		"short name": {func(in *dynamodb.CreateTableInput) { in.TableName = aws.String("ab") },
			"1 validation error detected: Value 'ab' at 'tableName' failed to satisfy constraint: Member must have length greater than or equal to 3"},
		"odd name": {func(in *dynamodb.CreateTableInput) { in.TableName = aws.String("a b!") },
			"1 validation error detected: Value 'a b!' at 'tableName' failed to satisfy constraint: Member must satisfy regular expression pattern: [a-zA-Z0-9_.-]+"},
		"no throughput": {func(in *dynamodb.CreateTableInput) { in.BillingMode = types.BillingModeProvisioned },
			"One or more parameter values were invalid: ReadCapacityUnits and WriteCapacityUnits must both be specified when BillingMode is PROVISIONED"},
		"undefined key": {func(in *dynamodb.CreateTableInput) { in.KeySchema[0].AttributeName = aws.String("q") },
			"One or more parameter values were invalid: Some index key attributes are not defined in AttributeDefinitions. Keys: [q], AttributeDefinitions: [p]"},
		"sort key first": {func(in *dynamodb.CreateTableInput) { in.KeySchema[0].KeyType = types.KeyTypeRange },
			"Invalid KeySchema: The first KeySchemaElement is not a HASH key type"},
		"spare definition": {func(in *dynamodb.CreateTableInput) {
			in.AttributeDefinitions = append(in.AttributeDefinitions, types.AttributeDefinition{AttributeName: aws.String("q"), AttributeType: types.ScalarAttributeTypeS})
		}, "One or more parameter values were invalid: Number of attributes in KeySchema does not exactly match number of attributes defined in AttributeDefinitions"},
		"an index": {func(in *dynamodb.CreateTableInput) {
			in.GlobalSecondaryIndexes = []types.GlobalSecondaryIndex{{IndexName: aws.String("gsi"), KeySchema: in.KeySchema, Projection: &types.Projection{ProjectionType: types.ProjectionTypeAll}}}
		}, "This DynamoDB emulator does not support global secondary indexes: create the table without GlobalSecondaryIndexes"},
		"a stream": {func(in *dynamodb.CreateTableInput) {
			in.StreamSpecification = &types.StreamSpecification{StreamEnabled: aws.Bool(true), StreamViewType: types.StreamViewTypeKeysOnly}
		}, "This DynamoDB emulator does not support streams: create the table without StreamSpecification"},
	} {
		t.Run(name, func(t *testing.T) {
			in := &dynamodb.CreateTableInput{
				TableName: aws.String("another"), BillingMode: types.BillingModePayPerRequest,
				AttributeDefinitions: []types.AttributeDefinition{{AttributeName: aws.String("p"), AttributeType: types.ScalarAttributeTypeS}},
				KeySchema:            []types.KeySchemaElement{{AttributeName: aws.String("p"), KeyType: types.KeyTypeHash}},
			}
			tt.change(in)
			_, err := b.CreateTable(t.Context(), in)
			wantError(t, err, "ValidationException", tt.message)
		})
	}
}

func TestKeysThatAreRefused(t *testing.T) {
	t.Parallel()
	b := setup(t, dynamodbemu.Options{})
	b.createTable(t, "words", "p", types.ScalarAttributeTypeS, "s", types.ScalarAttributeTypeS)
	const mismatch = "The provided key element does not match the schema"
	for name, tt := range map[string]struct {
		key          attrs
		message, put string // for GetItem and PutItem; "" means accepted
	}{
		"fits":              {attrs{"p": str(strings.Repeat("x", 2048)), "s": str(strings.Repeat("y", 1024))}, "", ""},
		"partition long":    {attrs{"p": str(strings.Repeat("x", 2049)), "s": str("y")}, "One or more parameter values were invalid: Size of hashkey has exceeded the maximum size limit of2048 bytes", "same"},
		"bytes count":       {attrs{"p": str(strings.Repeat("é", 1025)), "s": str("y")}, "One or more parameter values were invalid: Size of hashkey has exceeded the maximum size limit of2048 bytes", "same"},
		"sort long":         {attrs{"p": str("x"), "s": str(strings.Repeat("y", 1025))}, "One or more parameter values were invalid: Aggregated size of all range keys has exceeded the size limit of 1024 bytes", "same"},
		"partition empty":   {attrs{"p": str(""), "s": str("y")}, "One or more parameter values are not valid. The AttributeValue for a key attribute cannot contain an empty string value. Key: p", "same"},
		"sort empty":        {attrs{"p": str("x"), "s": str("")}, "One or more parameter values are not valid. The AttributeValue for a key attribute cannot contain an empty string value. Key: s", "same"},
		"sort missing":      {attrs{"p": str("x")}, mismatch, "One or more parameter values were invalid: Missing the key s in the item"},
		"of another type":   {attrs{"p": str("x"), "s": num("1")}, mismatch, "One or more parameter values were invalid: Type mismatch for key s expected: S actual: N"},
		"of no scalar":      {attrs{"p": list(), "s": str("y")}, mismatch, "One or more parameter values were invalid: Type mismatch for key p expected: S actual: L"},
		"with one too many": {attrs{"p": str("x"), "s": str("y"), "z": str("z")}, mismatch, ""},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := b.GetItem(t.Context(), &dynamodb.GetItemInput{TableName: aws.String("words"), Key: tt.key})
			if tt.message == "" && err != nil {
				t.Error(err)
			} else if tt.message != "" {
				wantError(t, err, "ValidationException", tt.message)
			}
			if tt.put == "same" {
				tt.put = tt.message
			}
			_, err = b.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: aws.String("words"), Item: tt.key})
			if tt.put == "" && err != nil {
				t.Error(err)
			} else if tt.put != "" {
				wantError(t, err, "ValidationException", tt.put)
			}
		})
	}
}

func TestKeysAreByteExact(t *testing.T) {
	t.Parallel()
	b := setup(t, dynamodbemu.Options{})
	b.createTable(t, "numbers", "p", types.ScalarAttributeTypeN)
	for i, p := range []string{"é", "e\u0301", "a|b", `a\|b`, "a", "A", " a"} {
		b.put(t, "items", with(key(p), attrs{"i": num(strconv.Itoa(i))}))
	}
	out, err := b.Scan(t.Context(), &dynamodb.ScanInput{TableName: aws.String("items")})
	if err != nil || out.Count != 7 {
		t.Errorf("got %d items, %v", out.Count, err)
	}
	b.put(t, "numbers", attrs{"p": num("1.50"), "x": str("y")})
	wantItem(t, b.get(t, "numbers", attrs{"p": num("0.15e1")}), attrs{"p": num("1.5"), "x": str("y")})
}

func TestItemsOf400KB(t *testing.T) {
	t.Parallel()
	b := setup(t, dynamodbemu.Options{})
	// "p" and "k", "x" and its text: 400 KB in all.
	const room = 400<<10 - 3
	put := func(n int) error {
		_, err := b.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: aws.String("items"), Item: attrs{"p": str("k"), "x": str(strings.Repeat("x", n))}})
		return err
	}
	if err := put(room); err != nil {
		t.Error(err)
	}
	wantError(t, put(room+1), "ValidationException", "Item size has exceeded the maximum allowed size")
	_, err := b.update(t, "SET y = :v", nil, attrs{":v": str("")})
	wantError(t, err, "ValidationException", "Item size to update has exceeded the maximum allowed size")
	if _, err := b.update(t, "SET x = :v", nil, attrs{":v": str("small")}); err != nil {
		t.Error(err)
	}
}

func TestNestingOf32Levels(t *testing.T) {
	t.Parallel()
	b := setup(t, dynamodbemu.Options{})
	nested := func(n int) types.AttributeValue {
		v := str("x")
		for range n {
			v = list(v)
		}
		return v
	}
	b.put(t, "items", with(key("k"), attrs{"l": nested(32)}))
	_, err := b.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: aws.String("items"), Item: with(key("k"), attrs{"l": nested(33)})})
	wantError(t, err, "ValidationException", "")
}

func TestConsumedWriteUnits(t *testing.T) {
	t.Parallel()
	b := setup(t, dynamodbemu.Options{})
	last := 0.0
	used := func() float64 {
		now := b.server.Consumed("items").Write
		defer func() { last = now }()
		return now - last
	}
	sized := func(n int) attrs { return attrs{"p": str("k"), "x": str(strings.Repeat("x", n))} }
	put := func(n int, condition *string) error {
		out, err := b.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: aws.String("items"), Item: sized(n), ConditionExpression: condition, ReturnConsumedCapacity: types.ReturnConsumedCapacityIndexes})
		if err == nil && (aws.ToFloat64(out.ConsumedCapacity.CapacityUnits) != aws.ToFloat64(out.ConsumedCapacity.Table.CapacityUnits) || *out.ConsumedCapacity.TableName != "items") {
			t.Errorf("got %+v", out.ConsumedCapacity)
		}
		return err
	}
	for _, step := range []struct {
		name string
		do   func() error
		want float64
	}{
		{"a small item", func() error { return put(1, nil) }, 1},
		{"just one KB", func() error { return put(1021, nil) }, 1},
		{"a byte more", func() error { return put(1022, nil) }, 2},
		{"smaller again costs the old size", func() error { return put(1, nil) }, 2},
		{"2.5 KB", func() error { return put(2500, nil) }, 3},
		{"a failed condition costs the same", func() error { return put(1, aws.String("attribute_not_exists(p)")) }, 3},
		{"a transaction costs twice", func() error { return b.transact(t, incrementAction("k"), incrementAction("other")) }, 6 + 2},
		{"a cancelled one, too", func() error {
			return b.transact(t, checkAction("k", "attribute_not_exists(p)"), incrementAction("other"))
		}, 6 + 2},
		{"a refused one costs nothing", func() error { return b.transact(t, incrementAction("k"), incrementAction("k")) }, 0},
		{"a deletion", func() error { return b.transact(t, deleteAction("k")) }, 6},
		{"a deletion of nothing", func() error {
			_, err := b.DeleteItem(t.Context(), &dynamodb.DeleteItemInput{TableName: aws.String("items"), Key: key("k")})
			return err
		}, 1},
	} {
		var conditional *types.ConditionalCheckFailedException
		var canceled *types.TransactionCanceledException
		if err := step.do(); err != nil && !errors.As(err, &conditional) && !errors.As(err, &canceled) && step.want != 0 {
			t.Fatalf("%s: %v", step.name, err)
		}
		if got := used(); got != step.want {
			t.Errorf("%s: %v units, want %v", step.name, got, step.want)
		}
	}
}

func TestConsumedReadUnits(t *testing.T) {
	t.Parallel()
	b := setup(t, dynamodbemu.Options{})
	b.put(t, "items", attrs{"p": str("k"), "x": str(strings.Repeat("x", 4094))})
	for _, tt := range []struct {
		key        string
		consistent bool
		want       float64
	}{{"k", true, 2}, {"k", false, 1}, {"none", true, 1}, {"none", false, 0.5}} {
		out, err := b.GetItem(t.Context(), &dynamodb.GetItemInput{TableName: aws.String("items"), Key: key(tt.key), ConsistentRead: &tt.consistent, ReturnConsumedCapacity: types.ReturnConsumedCapacityTotal})
		if err != nil || aws.ToFloat64(out.ConsumedCapacity.CapacityUnits) != tt.want {
			t.Errorf("%v: got %+v, %v", tt, out.ConsumedCapacity, err)
		}
	}
}

func (b *bundle) enableTTL(t *testing.T) {
	t.Helper()
	_, err := b.UpdateTimeToLive(t.Context(), &dynamodb.UpdateTimeToLiveInput{
		TableName: aws.String("items"), TimeToLiveSpecification: &types.TimeToLiveSpecification{AttributeName: aws.String("ttl"), Enabled: aws.Bool(true)},
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestExpiredItemsStayUntilToldToGo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, dynamodbemu.Options{})
		now := time.Now().Unix()
		for name, ttl := range map[string]types.AttributeValue{
			"past": num(strconv.FormatInt(now-1, 10)), "now": num(strconv.FormatInt(now, 10)), "soon": num(strconv.FormatInt(now+1, 10)),
			"text": str(strconv.FormatInt(now-1, 10)), "small": num("5"), "milliseconds": num(strconv.FormatInt(now*1000, 10)), "list": list(),
		} {
			b.put(t, "items", with(key(name), attrs{"ttl": ttl}))
		}
		b.put(t, "items", key("none"))
		if n := b.server.ExpireNow(); n != 0 {
			t.Errorf("TTL is disabled, but %d items went", n)
		}
		b.enableTTL(t)
		if b.get(t, "items", key("past")) == nil {
			t.Error("an expired item went by itself")
		}
		if n := b.server.ExpireNow(); n != 2 || b.get(t, "items", key("past")) != nil || b.get(t, "items", key("now")) != nil {
			t.Errorf("%d items went", n)
		}
		time.Sleep(time.Second)
		if n := b.server.ExpireNow(); n != 1 {
			t.Errorf("%d items went", n)
		}
	})
}

func TestExpiredItemsGoAfterADelay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, dynamodbemu.Options{TTLDelay: 48 * time.Hour})
		b.enableTTL(t)
		b.put(t, "items", with(key("k"), attrs{"ttl": num(strconv.FormatInt(time.Now().Add(time.Hour).Unix(), 10))}))
		time.Sleep(49*time.Hour - 1)
		if b.get(t, "items", key("k")) == nil {
			t.Error("it went too early")
		}
		time.Sleep(time.Nanosecond)
		if b.get(t, "items", key("k")) != nil {
			t.Error("it is still there")
		}
	})
}

func TestTimeToLiveSettings(t *testing.T) {
	t.Parallel()
	b := setup(t, dynamodbemu.Options{})
	status := func() string {
		out, err := b.DescribeTimeToLive(t.Context(), &dynamodb.DescribeTimeToLiveInput{TableName: aws.String("items")})
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprint(out.TimeToLiveDescription.TimeToLiveStatus, " ", aws.ToString(out.TimeToLiveDescription.AttributeName))
	}
	update := func(name string, on bool) error {
		_, err := b.UpdateTimeToLive(t.Context(), &dynamodb.UpdateTimeToLiveInput{
			TableName: aws.String("items"), TimeToLiveSpecification: &types.TimeToLiveSpecification{AttributeName: &name, Enabled: &on},
		})
		return err
	}
	if got := status(); got != "DISABLED " {
		t.Errorf("got %q", got)
	}
	wantError(t, update("ttl", false), "ValidationException", "TimeToLive is already disabled")
	b.enableTTL(t)
	if got := status(); got != "ENABLED ttl" {
		t.Errorf("got %q", got)
	}
	wantError(t, update("ttl", true), "ValidationException", "TimeToLive is already enabled")
	wantError(t, update("other", false), "ValidationException", "TimeToLive is active on a different AttributeName: current AttributeName is ttl")
	if err := update("ttl", false); err != nil {
		t.Fatal(err)
	}
	if got := status(); got != "DISABLED " {
		t.Errorf("got %q", got)
	}
}
