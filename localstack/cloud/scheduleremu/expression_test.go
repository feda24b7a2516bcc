package scheduleremu

import (
	"testing"
	"time"
)

// When expressions fire, on the clocks of the places they name.
func TestNext(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		expression, zone string
		anchor, after    string
		want             []string
	}{
		{"cron(15 12 * * ? *)", "UTC", "", "2027-01-01T12:15:00Z", []string{"2027-01-02T12:15:00Z", "2027-01-03T12:15:00Z"}},
		{"cron(0 9 ? * MON-FRI *)", "UTC", "", "2027-01-01T09:00:00Z", []string{"2027-01-04T09:00:00Z"}},
		{"cron(0 0 1 JAN,JUL ? 2028)", "UTC", "", "2027-01-01T00:00:00Z", []string{"2028-01-01T00:00:00Z", "2028-07-01T00:00:00Z", ""}},
		{"cron(0 0 L * ? *)", "UTC", "", "2027-02-01T00:00:00Z", []string{"2027-02-28T00:00:00Z", "2027-03-31T00:00:00Z"}},
		{"cron(0 0 31 * ? *)", "UTC", "", "2027-01-31T00:00:00Z", []string{"2027-03-31T00:00:00Z"}},
		{"cron(0 0 15W * ? *)", "UTC", "", "2027-05-01T00:00:00Z", []string{"2027-05-14T00:00:00Z", "2027-06-15T00:00:00Z"}},
		{"cron(0 0 LW * ? *)", "UTC", "", "2027-10-01T00:00:00Z", []string{"2027-10-29T00:00:00Z"}},
		{"cron(0 0 ? * 6L *)", "UTC", "", "2027-01-01T00:00:00Z", []string{"2027-01-29T00:00:00Z"}},
		{"cron(0 0 ? * 2#1 *)", "UTC", "", "2027-01-01T00:00:00Z", []string{"2027-01-04T00:00:00Z", "2027-02-01T00:00:00Z"}},
		{"cron(30/15 10 1 * ? *)", "UTC", "", "2027-01-01T00:00:00Z", []string{"2027-01-01T10:30:00Z", "2027-01-01T10:45:00Z", "2027-02-01T10:30:00Z"}},
		{"cron(0 0 30 2 ? *)", "UTC", "", "2027-01-01T00:00:00Z", []string{""}},
		// Put forward on 28 March 2027: there is no 02:30. Put back on 31 October: one of the two 02:30 counts.
		{"cron(30 2 * * ? *)", "Europe/Paris", "", "2027-03-27T12:00:00Z", []string{"2027-03-29T00:30:00Z"}},
		{"cron(30 2 * * ? *)", "Europe/Paris", "", "2027-10-30T00:30:00Z", []string{"2027-10-31T00:30:00Z", "2027-11-01T01:30:00Z"}},
		{"rate(90 minutes)", "UTC", "2027-01-01T00:00:00Z", "2027-01-01T03:00:00Z", []string{"2027-01-01T04:30:00Z"}},
		{"rate(1 hour)", "UTC", "2027-01-01T00:00:00Z", "2026-12-01T00:00:00Z", []string{"2027-01-01T00:00:00Z", "2027-01-01T01:00:00Z"}},
		// A day on the clock, whatever its length.
		{"rate(1 day)", "Europe/Paris", "2027-03-27T11:00:00Z", "2027-03-27T11:00:00Z", []string{"2027-03-28T10:00:00Z", "2027-03-29T10:00:00Z"}},
		{"rate(7 days)", "UTC", "2027-01-01T00:00:00Z", "2028-01-01T00:00:00Z", []string{"2028-01-07T00:00:00Z"}},
		{"at(2027-06-01T12:00:00)", "Asia/Tokyo", "", "2027-01-01T00:00:00Z", []string{"2027-06-01T03:00:00Z", ""}},
	} {
		t.Run(c.expression+" "+c.zone, func(t *testing.T) {
			t.Parallel()
			zone, err := time.LoadLocation(c.zone)
			if err != nil {
				t.Fatal(err)
			}
			e, err := parseExpression(c.expression, zone)
			if err != nil {
				t.Fatal(err)
			}
			anchor, _ := time.Parse(time.RFC3339, c.anchor)
			after, err := time.Parse(time.RFC3339, c.after)
			if err != nil {
				t.Fatal(err)
			}
			for _, want := range c.want {
				got := ""
				at, ok := e.next(anchor, after)
				if ok {
					got = at.UTC().Format(time.RFC3339)
				}
				if got != want {
					t.Fatalf("after %s: %q, want %q", after, got, want)
				}
				after = at
			}
		})
	}
}

func TestExpressionRefusals(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"", "at()", "at(2027-13-01T00:00:00)", "at(2027-01-01 00:00:00)", "at(2027-01-01T00:00:00) ", "rate(1)", "rate(-1 minute)",
		"rate(1.5 hours)", "rate(999999999 days)", "cron()", "cron(60 0 * * ? *)", "cron(0 24 * * ? *)", "cron(0 0 0 * ? *)",
		"cron(0 0 32 * ? *)", "cron(0 0 ? 13 1 *)", "cron(0 0 ? * 8 *)", "cron(0 0 ? * 0 *)", "cron(0 0 ? * ? *)", "cron(0 0 1 * 1 *)",
		"cron(0 0 1 * ? 1969)", "cron(0 0 1 * ? 2200)", "cron(5-1 0 1 * ? *)", "cron(*/0 0 1 * ? *)", "cron(0 0 ? * 2#6 *)", "cron(a 0 1 * ? *)",
	} {
		if _, err := parseExpression(text, time.UTC); err == nil {
			t.Errorf("%q is accepted", text)
		}
	}
}
