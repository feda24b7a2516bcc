package scheduleremu

import (
	"errors"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// expression says when a schedule fires: at one time, at a rate, or by a
// cron expression.
type expression struct {
	zone *time.Location
	at   time.Time
	days int           // rate in days on the clock of the zone
	rate time.Duration // rate in minutes or hours
	cron *cron
}

var (
	atGrammar   = regexp.MustCompile(`^at\((\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)\)$`)
	rateGrammar = regexp.MustCompile(`^rate\(\s*(\d{1,9})\s+(minute|hour|day)s?\s*\)$`)
	cronGrammar = regexp.MustCompile(`^cron\((.*)\)$`)
)

// maxRateDays bounds a rate to what calendars can add up.
const maxRateDays = 365 * 1000

func parseExpression(text string, zone *time.Location) (expression, error) {
	e := expression{zone: zone}
	var err error
	if m := atGrammar.FindStringSubmatch(text); m != nil {
		e.at, err = time.ParseInLocation("2006-01-02T15:04:05", m[1], zone)
		return e, err
	}
	if m := rateGrammar.FindStringSubmatch(text); m != nil {
		return e.withRate(m[1], m[2])
	}
	if m := cronGrammar.FindStringSubmatch(text); m != nil {
		e.cron, err = parseCron(m[1])
		return e, err
	}
	return e, errors.New("it must be at(yyyy-mm-ddThh:mm:ss), rate(value unit) or cron(fields)")
}

func (e expression) withRate(value, unit string) (expression, error) {
	n, err := strconv.Atoi(value)
	if err != nil || n == 0 {
		return e, errors.New("the rate must be a positive whole number")
	}
	switch unit {
	case "day":
		e.days = n
	case "hour":
		e.rate = time.Duration(n) * time.Hour
	case "minute":
		e.rate = time.Duration(n) * time.Minute
	}
	if e.days > maxRateDays || e.rate/(24*time.Hour) > maxRateDays || e.rate < 0 {
		return e, errors.New("the rate is too slow")
	}
	return e, nil
}

func (e expression) once() bool { return !e.at.IsZero() }

// next is the first time after a moment at which the schedule fires, if there
// is one. A rate counts from anchor, which is itself such a time.
func (e expression) next(anchor, after time.Time) (time.Time, bool) {
	switch {
	case e.once():
		return e.at, e.at.After(after)
	case e.cron != nil:
		return e.cron.next(after, e.zone)
	case after.Before(anchor):
		return anchor, true
	case e.rate > 0:
		passed := after.Sub(anchor)
		return anchor.Add(passed - passed%e.rate + e.rate), true
	}
	local := anchor.In(e.zone)
	steps := int(after.Sub(anchor).Hours()/24)/e.days - 1
	for {
		if t := local.AddDate(0, 0, max(steps, 0)*e.days); t.After(after) {
			return t, true
		}
		steps = max(steps, 0) + 1
	}
}

// Keywords that the service replaces in a target's input.
const (
	keywordScheduleARN = "<aws.scheduler.schedule-arn>"
	keywordScheduled   = "<aws.scheduler.scheduled-time>"
	keywordExecutionID = "<aws.scheduler.execution-id>"
	keywordAttempt     = "<aws.scheduler.attempt-number>"
)

func (f *Fire) replaceKeywords(input string) string {
	if !strings.Contains(input, "<aws.scheduler.") {
		return input
	}
	return strings.NewReplacer(
		keywordScheduleARN, f.ScheduleARN,
		keywordScheduled, f.Scheduled.UTC().Format("2006-01-02T15:04:05Z"),
		keywordExecutionID, f.ExecutionID,
		keywordAttempt, strconv.Itoa(f.Attempt),
	).Replace(input)
}
