package dynamolimit_test

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

	"github.com/sluice-dev/sluice/localstack/cloud"
	"github.com/sluice-dev/sluice/shared/dynamolimit"
	"github.com/sluice-dev/sluice/shared/limit"
)

// What the items look like, and when they may go.

func TestTiersOfOneGroupAndKeyAreOneItem(t *testing.T) {
	t.Parallel()
	c := newCloud(t, cloud.Options{})
	var policies []limit.Policy
	for i := range limit.MaxTiersPerItem {
		name := fmt.Sprintf("%c%s", 'a'+i, strings.Repeat(".-_", 20)) // the longest names, all of it to be escaped
		policies = append(policies, limit.Policy{Name: name, Group: "g", Rate: limit.Per(limit.MaxUnits, limit.MaxPeriod)})
	}
	l := newLimiter(c, "limiter", dynamolimit.WithPolicies(1, policies...))
	for range 3 {
		var tiers []limit.Tier
		for _, p := range policies {
			tiers = append(tiers, p.Key("k").Cost(5))
		}
		r := acquired(t, l, tiers...)
		if err := r.Refund(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	stored := items(t, c)
	if len(stored) != 1 {
		t.Fatalf("%d items, want 1", len(stored))
	}
	for name := range stored[0] {
		if strings.ContainsAny(name, ".-") {
			t.Errorf("attribute %q: some stores misread it in expressions", name)
		}
	}
}

func TestKeysAreReadableAndWithinBounds(t *testing.T) {
	t.Parallel()
	c := newCloud(t, cloud.Options{})
	p := limit.Policy{Name: "p", Group: "llm", Rate: limit.PerHour(1)}
	l := newLimiter(c, "limiter", dynamolimit.WithPolicies(1, p))
	acquired(t, l, p.Key("acme:eu"))
	acquired(t, l, p.Key(strings.Repeat("é", limit.MaxKeyBytes/2)))
	var keys []string
	for _, i := range items(t, c) {
		keys = append(keys, i["pk"].(*types.AttributeValueMemberS).Value)
	}
	readable, short := false, true
	for _, k := range keys {
		readable = readable || k == "k:llm:acme:eu"
		short = short && len(k) < 400
	}
	if !readable || !short {
		t.Errorf("partition keys %q", keys)
	}
}

func expires(t *testing.T, c *cloud.Cloud) time.Time {
	t.Helper()
	stored := items(t, c)
	if len(stored) != 1 {
		t.Fatalf("%d items, want 1", len(stored))
	}
	n, ok := stored[0]["ttl"].(*types.AttributeValueMemberN)
	if !ok {
		t.Fatal("no TTL")
	}
	seconds, err := strconv.ParseInt(n.Value, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return time.Unix(seconds, 0).UTC()
}

func TestTTLLiesBeyondFullRefillAndOnlyRises(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newTable(t, cloud.Options{})
		defer c.Close()
		short := limit.Policy{Name: "short", Group: "g", Rate: limit.PerSecond(1)}
		long := limit.Policy{Name: "long", Group: "g", Window: limit.FromFirstUse(7 * 24 * time.Hour), Max: 10}
		credit := limit.Policy{Name: "credit", Group: "g", Manual: limit.ByOperator, Max: 10}
		var l [3]*dynamolimit.Limiter
		for i := range l {
			l[i] = newLimiter(c, strconv.Itoa(i), dynamolimit.WithPolicies(1, short, long, credit))
		}
		last := time.Time{}
		rises := func(what string, days int) {
			t.Helper()
			got := expires(t, c)
			if got.Before(last) || got.Before(time.Now().AddDate(0, 0, days)) {
				t.Errorf("%s: expires at %v, was %v, now %v", what, got, last, time.Now())
			}
			last = got
		}
		acquired(t, l[0], short.Key("k"))
		rises("a short tier", 30)
		if last.After(time.Now().Add(32 * 24 * time.Hour)) {
			t.Errorf("expires at %v: too far off", last)
		}
		acquired(t, l[1], long.Key("k"))
		rises("a week's tier by another caller", 7)
		acquired(t, l[1], long.Key("k"))
		rises("the same again", 22)
		time.Sleep(time.Second)
		acquired(t, l[0], short.Key("k"))
		rises("the short tier by one who does not know", 22)
		for range 8 {
			time.Sleep(20 * 24 * time.Hour)
			acquired(t, l[0], short.Key("k"))
			rises("20 days later", 1)
		}
		acquired(t, l[2], credit.Key("k"))
		rises("a manual tier", 2555000)
		time.Sleep(time.Second)
		acquired(t, l[0], short.Key("k"), long.Key("k"))
		rises("the others after it", 2555000)
	})
}

// An item that has expired but is still there is not charged and then lost.
func TestAWriteToAnExpiredItemKeepsItAlive(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newTable(t, cloud.Options{})
		defer c.Close()
		p := limit.Policy{Name: "p", Rate: limit.PerDay(10)}
		acquired(t, newLimiter(c, "a", dynamolimit.WithPolicies(1, p)), p.Key("k").Cost(10))
		time.Sleep(100 * 24 * time.Hour)
		fresh := newLimiter(c, "b")
		acquired(t, fresh, p.Key("k").Cost(10))
		if n := c.DynamoDB().ExpireNow(); n != 0 {
			t.Errorf("%d items expired with 10 used", n)
		}
		denied(t, fresh, p.Key("k"))
		// Gone and come back, for one who remembers it.
		time.Sleep(100 * 24 * time.Hour)
		if n := c.DynamoDB().ExpireNow(); n != 1 {
			t.Fatalf("%d items expired, want 1", n)
		}
		r := acquired(t, fresh, p.Key("k").Cost(10))
		denied(t, newLimiter(c, "c"), p.Key("k"))
		if err := r.Refund(t.Context()); err != nil {
			t.Fatal(err)
		}
		acquired(t, fresh, p.Key("k").Cost(10))
	})
}

// Numbers of up to 38 digits go to the table and come back to the last one.
func TestLargePositionsAreExact(t *testing.T) {
	t.Parallel()
	c := newCloud(t, cloud.Options{})
	p := limit.Policy{Name: "p", Rate: limit.Per(limit.MaxUnits, limit.MaxPeriod-time.Millisecond)}
	l := newLimiter(c, "limiter", dynamolimit.WithPolicies(1, p))
	now := time.Now()
	fixed := newLimiter(c, "limiter", dynamolimit.WithClock(func() time.Time { return now }), dynamolimit.WithTrustedClock())
	acquired(t, l, p.Key("other"))
	acquired(t, fixed, p.Key("k").Cost(limit.MaxUnits-1))
	acquired(t, fixed, p.Key("k"))
	denied(t, fixed, p.Key("k"))
}

func TestATableOfAnotherProgramIsRefusedNotOverwritten(t *testing.T) {
	t.Parallel()
	c := newCloud(t, cloud.Options{})
	p := limit.Policy{Name: "p", Manual: limit.ByOperator, Max: 10}
	l := newLimiter(c, "limiter", dynamolimit.WithPolicies(1, p))
	acquired(t, l, p.Key("k"))
	if _, err := dynamodb.NewFromConfig(c.Config()).UpdateItem(t.Context(), &dynamodb.UpdateItemInput{
		TableName: aws.String(table), Key: map[string]types.AttributeValue{"pk": &types.AttributeValueMemberS{Value: "k:p:k"}, "sk": &types.AttributeValueMemberS{Value: "state"}},
		UpdateExpression: aws.String("SET p_p = :x"), ExpressionAttributeValues: map[string]types.AttributeValue{":x": &types.AttributeValueMemberS{Value: "text"}},
	}); err != nil {
		t.Fatal(err)
	}
	var d *limit.Denied
	if _, err := newLimiter(c, "other").Acquire(t.Context(), p.Key("k")); err == nil || errors.As(err, &d) || !strings.Contains(err.Error(), "p_p") {
		t.Errorf("error %v, want one that names the attribute", err)
	}
}
