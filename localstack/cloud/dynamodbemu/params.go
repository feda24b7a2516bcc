package dynamodbemu

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// constraints collects what is wrong with a request's parameters, to be reported
// together as AWS does.
type constraints struct{ broken []string }

func (c *constraints) require(ok bool, shown, name, constraint string) {
	if !ok {
		c.broken = append(c.broken, fmt.Sprintf("Value %s at '%s' failed to satisfy constraint: %s", shown, name, constraint))
	}
}

// enum requires one of the allowed values; an absent parameter passes.
func (c *constraints) enum(given, name string, allowed ...string) {
	c.require(given == "" || slices.Contains(allowed, given), quoted(given), name,
		"Member must satisfy enum value set: ["+strings.Join(allowed, ", ")+"]")
}

// present requires a parameter that may not be missing.
func (c *constraints) present(ok bool, name string) {
	c.require(ok, "null", name, "Member must not be null")
}

func (c *constraints) atLeast(n *int64, minimum int64, name string) {
	if n != nil {
		c.require(*n >= minimum, quoted(strconv.FormatInt(*n, 10)), name, fmt.Sprintf("Member must have value greater than or equal to %d", minimum))
	}
}

// length requires between minimum and maximum of whatever n counts.
func (c *constraints) length(n, minimum, maximum int, shown, name string) {
	c.require(n <= maximum, shown, name, fmt.Sprintf("Member must have length less than or equal to %d", maximum))
	c.require(n >= minimum, shown, name, fmt.Sprintf("Member must have length greater than or equal to %d", minimum))
}

func quoted(s string) string { return "'" + s + "'" }

var tableNamePattern = regexp.MustCompile(`^[a-zA-Z0-9_.-]+$`)

// minNewTableName is the shortest name for a new table. Requests about existing
// tables accept shorter ones, and then find no table.
const (
	minNewTableName = 3
	maxTableName    = 255
)

// tableName checks a table's name or ARN and returns the name.
func (c *constraints) tableName(given *string, minimum int) string {
	const field = "tableName"
	c.present(given != nil, field)
	if given == nil {
		return ""
	}
	name := *given
	if strings.HasPrefix(name, "arn:") {
		_, name, _ = strings.Cut(name, ":table/")
	}
	c.length(len(name), minimum, maxTableName, quoted(name), field)
	c.require(name == "" || tableNamePattern.MatchString(name), quoted(name), field, "Member must satisfy regular expression pattern: [a-zA-Z0-9_.-]+")
	return name
}

// err is the ValidationException for all that is wrong, or nil.
func (c *constraints) err() error {
	switch len(c.broken) {
	case 0:
		return nil
	case 1:
		return validationError("1 validation error detected: " + c.broken[0])
	}
	return validationErrorf("%d validation errors detected: %s", len(c.broken), strings.Join(c.broken, "; "))
}

// legacyParams are parameters that expressions replaced. They are refused, since
// ignoring one would change what a request means.
type legacyParams struct {
	Expected            map[string]any
	AttributeUpdates    map[string]any
	AttributesToGet     []string
	ConditionalOperator string
	KeyConditions       map[string]any
	QueryFilter         map[string]any
	ScanFilter          map[string]any
}

func (l *legacyParams) refuse() error {
	var given string
	switch {
	case l.Expected != nil:
		given = "Expected (use ConditionExpression)"
	case l.AttributeUpdates != nil:
		given = "AttributeUpdates (use UpdateExpression)"
	case l.AttributesToGet != nil:
		given = "AttributesToGet (use ProjectionExpression)"
	case l.ConditionalOperator != "":
		given = "ConditionalOperator (use ConditionExpression)"
	case l.KeyConditions != nil:
		given = "KeyConditions (use KeyConditionExpression)"
	case l.QueryFilter != nil:
		given = "QueryFilter (use FilterExpression)"
	case l.ScanFilter != nil:
		given = "ScanFilter (use FilterExpression)"
	default:
		return nil
	}
	return errUnsupported("the legacy parameter " + given)
}

// Names of parameters and values that occur in several operations.
const (
	projectionExpression = "ProjectionExpression"
	allOld               = "ALL_OLD"
)

// placeholders are the parameters that all expressions of a request share.
type placeholders struct {
	ExpressionAttributeNames  map[string]string
	ExpressionAttributeValues wireItem
}

// substitution checks the placeholders. Expressions are the request's parameters
// that may use them, by name; valueUsers those that may use values.
func (p *placeholders) substitution(expressions map[string]*string) (*substitution, error) {
	anyGiven, valuesUsable := false, false
	var unset []string
	for _, name := range sortedKeys(expressions) {
		given := expressions[name] != nil
		anyGiven = anyGiven || given
		if name == projectionExpression {
			continue
		}
		valuesUsable = valuesUsable || given
		unset = append(unset, name)
	}
	if p.ExpressionAttributeNames != nil && !anyGiven {
		return nil, validationError("ExpressionAttributeNames can only be specified when using expressions")
	}
	if p.ExpressionAttributeValues != nil && !valuesUsable {
		verb := "is"
		if len(unset) > 1 {
			verb = "are"
		}
		return nil, validationErrorf("ExpressionAttributeValues can only be specified when using expressions: %s %s null", strings.Join(unset, " and "), verb)
	}
	return newSubstitution(p.ExpressionAttributeNames, p.ExpressionAttributeValues)
}

// parseOptional parses an expression that may be missing.
func parseOptional[T any](parameter string, text *string, s *substitution, grammar func(*parser) (T, error)) (T, error) {
	if text == nil {
		var none T
		return none, nil
	}
	return parseExpression(parameter, *text, s, grammar)
}
