package scheduleremu

import (
	"regexp"
	"strings"
	"time"
)

var (
	nameGrammar  = regexp.MustCompile(`^[0-9a-zA-Z_.-]{1,64}$`)
	tokenGrammar = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)
	roleGrammar  = regexp.MustCompile(`^arn:aws[a-z-]*:iam::\d{12}:role/[\w+=,.@/-]+$`)
	queueGrammar = regexp.MustCompile(`^arn:aws[a-z-]*:sqs:[a-z0-9-]+:\d{12}:[a-zA-Z0-9_-]+$`)
)

// Bounds of what a schedule may say.
const (
	maxInputBytes       = 256 << 10
	maxDescription      = 512
	maxRetryAttempts    = 185
	minEventAge         = 60    // seconds
	maxEventAge         = 86400 // seconds
	maxWindow           = 1440  // minutes
	stateEnabled        = "ENABLED"
	stateDisabled       = "DISABLED"
	actionNone          = "NONE"
	actionDelete        = "DELETE"
	windowOff           = "OFF"
	windowFlexible      = "FLEXIBLE"
	maxTargetARN        = 1600
	maxTags             = 200
	statusActive        = "ACTIVE"
	constraintViolation = "1 validation error detected: Value %v at '%s' failed to satisfy constraint: %s"
)

func checkName(field, name string) error {
	if !nameGrammar.MatchString(name) {
		return validation(constraintViolation, "'"+name+"'", field,
			"Member must have length between 1 and 64 and satisfy regular expression pattern: ^[0-9a-zA-Z-_.]+$")
	}
	return nil
}

func checkToken(token string) error {
	if token != "" && !tokenGrammar.MatchString(token) {
		return validation(constraintViolation, "'"+token+"'", "clientToken",
			"Member must have length between 1 and 64 and satisfy regular expression pattern: ^[a-zA-Z0-9-_]+$")
	}
	return nil
}

func required(field string) error {
	return validation(constraintViolation, "null", field, "Member must not be null")
}

// complete checks a definition and fills in the defaults of what it leaves
// out. The expression is returned in its parsed form.
func (d *definition) complete(now time.Time) (expression, error) {
	defaults := []struct {
		field *string
		value string
	}{
		{&d.ActionAfterCompletion, actionNone}, {&d.GroupName, defaultGroup},
		{&d.ScheduleExpressionTimezone, "UTC"}, {&d.State, stateEnabled},
	}
	for _, f := range defaults {
		if *f.field == "" {
			*f.field = f.value
		}
	}
	for _, check := range []func() error{d.checkPlain, d.checkWindow, d.checkTarget} {
		if err := check(); err != nil {
			return expression{}, err
		}
	}
	return d.parseExpression(now)
}

func (d *definition) checkPlain() error {
	switch {
	case d.ActionAfterCompletion != actionNone && d.ActionAfterCompletion != actionDelete:
		return validation(constraintViolation, "'"+d.ActionAfterCompletion+"'", "actionAfterCompletion",
			"Member must satisfy enum value set: [NONE, DELETE]")
	case d.State != stateEnabled && d.State != stateDisabled:
		return validation(constraintViolation, "'"+d.State+"'", "state",
			"Member must satisfy enum value set: [ENABLED, DISABLED]")
	case len(d.Description) > maxDescription:
		return validation(constraintViolation, "'"+d.Description+"'", "description",
			"Member must have length less than or equal to 512")
	}
	if err := checkToken(d.ClientToken); err != nil {
		return err
	}
	return checkName("groupName", d.GroupName)
}

func (d *definition) checkWindow() error {
	if d.FlexibleTimeWindow == nil {
		return required("flexibleTimeWindow")
	}
	minutes := d.FlexibleTimeWindow.MaximumWindowInMinutes
	switch d.FlexibleTimeWindow.Mode {
	case windowOff:
		if minutes != nil {
			return validation("Invalid FlexibleTimeWindow: MaximumWindowInMinutes is not permitted when Mode is OFF")
		}
	case windowFlexible:
		if minutes == nil || *minutes < 1 || *minutes > maxWindow {
			return validation("Invalid FlexibleTimeWindow: MaximumWindowInMinutes must be between 1 and 1440 when Mode is FLEXIBLE")
		}
	case "":
		return required("flexibleTimeWindow.mode")
	default:
		return validation(constraintViolation, "'"+d.FlexibleTimeWindow.Mode+"'", "flexibleTimeWindow.mode",
			"Member must satisfy enum value set: [OFF, FLEXIBLE]")
	}
	return nil
}

func (d *definition) checkTarget() error {
	t := d.Target
	switch {
	case t == nil:
		return required("target")
	case t.Arn == "":
		return required("target.arn")
	case t.RoleArn == "":
		return required("target.roleArn")
	case !strings.HasPrefix(t.Arn, "arn:") || len(t.Arn) > maxTargetARN:
		return validation("Provided Arn is not in correct format: %s", t.Arn)
	case !roleGrammar.MatchString(t.RoleArn):
		return validation("Provided RoleArn is not the ARN of an IAM role: %s", t.RoleArn)
	case len(t.Input) > maxInputBytes:
		return validation("Provided Input is %d bytes, more than %d", len(t.Input), maxInputBytes)
	}
	if q := t.DeadLetterConfig; q != nil && q.Arn != "" && !queueGrammar.MatchString(q.Arn) {
		return validation("The dead-letter queue must be an SQS standard queue: %s", q.Arn)
	}
	return t.completeRetryPolicy()
}

// completeRetryPolicy fills in the defaults: 185 retries over 24 hours.
func (t *target) completeRetryPolicy() error {
	if t.RetryPolicy == nil {
		t.RetryPolicy = &retryPolicy{}
	}
	p := t.RetryPolicy
	if p.MaximumRetryAttempts == nil {
		p.MaximumRetryAttempts = new(maxRetryAttempts)
	}
	if p.MaximumEventAgeInSeconds == nil {
		p.MaximumEventAgeInSeconds = new(maxEventAge)
	}
	if n := *p.MaximumRetryAttempts; n < 0 || n > maxRetryAttempts {
		return validation(constraintViolation, n, "target.retryPolicy.maximumRetryAttempts", "Member must be between 0 and 185")
	}
	if n := *p.MaximumEventAgeInSeconds; n < minEventAge || n > maxEventAge {
		return validation(constraintViolation, n, "target.retryPolicy.maximumEventAgeInSeconds", "Member must be between 60 and 86400")
	}
	return nil
}

func (d *definition) parseExpression(now time.Time) (expression, error) {
	if d.ScheduleExpression == "" {
		return expression{}, required("scheduleExpression")
	}
	zone, err := time.LoadLocation(d.ScheduleExpressionTimezone)
	if err != nil || d.ScheduleExpressionTimezone == "Local" {
		return expression{}, validation("Invalid Schedule Expression Timezone: %s", d.ScheduleExpressionTimezone)
	}
	e, err := parseExpression(d.ScheduleExpression, zone)
	if err != nil {
		return e, validation("Invalid Schedule Expression %s. %v", d.ScheduleExpression, err)
	}
	start, end := d.StartDate.time(), d.EndDate.time()
	switch {
	case e.once():
		// "Now", cut to the second, has passed when it arrives.
		if !e.at.After(now) {
			return e, validation("Invalid Schedule Expression %s. The time has passed: it is %s", d.ScheduleExpression, now.UTC().Format(time.RFC3339Nano))
		}
	case d.EndDate != nil && !end.After(now):
		return e, validation("The EndDate you specify must be in the future")
	case d.EndDate != nil && d.StartDate != nil && !end.After(start):
		return e, validation("The EndDate you specify must be after the StartDate")
	}
	return e, nil
}
