package lambdalimit_test

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/sluice-dev/sluice/shared/dynamolimit"
	"github.com/sluice-dev/sluice/shared/lambdalimit"
	"github.com/sluice-dev/sluice/shared/limit"
)

func TestInspectTellsHowManyTasksAreParked(t *testing.T) {
	t.Parallel()
	l := dynamolimit.New(dynamodb.NewFromConfig(tableConfig(t)), "limits", dynamolimit.WithLog(slog.New(slog.DiscardHandler)))
	p := limit.Policy{Name: "p", Rate: limit.Per(1, limit.MaxPeriod)}
	if err := l.Declare(t.Context(), 1, p); err != nil {
		t.Fatal(err)
	}
	for n := range 4 { // one runs
		if _, err := l.Arrive(t.Context(), dynamolimit.Task{ID: fmt.Sprint("t", n)}, []limit.Tier{p.Key("a")}, limit.Patience{}); err != nil {
			t.Fatal(err)
		}
	}
	b := setup(t)
	b.handler = &lambdalimit.Handler{Limiter: l}
	for key, want := range map[string]int64{"a": 3, "b": 0} {
		answer := b.ask(t, `{"op":"inspect","policy":"p","key":"`+key+`"}`)
		var r lambdalimit.Reading
		if err := json.Unmarshal([]byte(answer), &r); err != nil || r.Parked == nil || *r.Parked != want || r.Key != key || r.Limit != 1 {
			t.Errorf("%s, %v, want %d", answer, err, want)
		}
	}
}

// A reading comes out as it went in, with and without the number.
func TestAReadingIsWrittenAndRead(t *testing.T) {
	t.Parallel()
	for _, r := range []lambdalimit.Reading{
		{Reading: limit.Reading{Policy: "p", Kind: limit.Bucket, Limit: 5, FullAt: time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC)}},
		{Reading: limit.Reading{Policy: "p", Kind: limit.FixedWindow, Blocked: &limit.Blocked{Policy: "p", Wait: time.Second, Verdict: limit.Later}}, Parked: new(int64)},
	} {
		doc, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		var got lambdalimit.Reading
		if err := json.Unmarshal(doc, &got); err != nil {
			t.Fatal(err)
		}
		again, err := json.Marshal(got)
		if err != nil || string(again) != string(doc) || (got.Parked == nil) != (r.Parked == nil) {
			t.Errorf("%s, then %s, %v", doc, again, err)
		}
	}
}
