package lambdalimit

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// decode reads a request. Every error is an [*Error] that names the member.
func decode(payload []byte) (*Request, error) {
	var given map[string]jsontext.Value
	if err := json.Unmarshal(payload, &given); err != nil {
		return nil, worded(err)
	}
	if member := findNull(payload); member != "" {
		return nil, badMember(member, "is null: leave it out instead")
	}
	if _, ok := given["op"]; !ok {
		return nil, badMember("op", "is missing: want %s", opNames())
	}
	var op struct {
		Op Op `json:"op"`
	}
	if err := json.Unmarshal(payload, &op); err != nil {
		return nil, worded(err)
	}
	shape, ok := shapes[op.Op]
	if !ok {
		return nil, badMember("op", "%.50q: want %s", string(op.Op), opNames())
	}
	for _, name := range shape.required {
		if _, ok := given[name]; !ok {
			return nil, badMember(name, "is missing: %s needs it", op.Op)
		}
	}
	r := new(Request)
	if err := json.Unmarshal(payload, r, json.RejectUnknownMembers(true)); err != nil {
		return nil, worded(err)
	}
	for name := range given {
		if !shape.takes(name) {
			return nil, badMember(name, "does not go with %s", op.Op)
		}
	}
	for name, value := range map[string]string{"id": r.ID, "policy": r.Policy, "reservation": r.Reservation} {
		if _, ok := given[name]; ok && value == "" {
			return nil, badMember(name, "is empty")
		}
	}
	if err := r.check(); err != nil {
		return nil, err
	}
	return r, nil
}

// findNull returns where the document has a null, or "".
func findNull(payload []byte) string {
	d := jsontext.NewDecoder(bytes.NewReader(payload))
	for {
		token, err := d.ReadToken()
		switch {
		case err != nil:
			return "" // the end: the syntax has been checked
		case token.Kind() == 'n' && d.StackDepth() == 0:
			return "the request"
		case token.Kind() == 'n':
			return path(d.StackPointer())
		}
	}
}

// worded says in the terms of the document what the decoder found.
func worded(err error) error {
	var syntactic *jsontext.SyntacticError
	var semantic *json.SemanticError
	switch {
	case errors.As(err, &syntactic) && errors.Is(err, jsontext.ErrDuplicateName):
		return badMember(path(syntactic.JSONPointer), "is given twice")
	case errors.As(err, &syntactic):
		return badRequest("the request is not one JSON document: %v at byte %d", syntactic.Err, syntactic.ByteOffset)
	case !errors.As(err, &semantic):
		return badRequest("the request is not one JSON document: %v", err)
	case errors.Is(err, json.ErrUnknownName):
		return badMember(path(semantic.JSONPointer), "is not a member of a request")
	case semantic.JSONPointer == "" || semantic.GoType == nil:
		return badRequest("the request is %s: want an object", kindOf(semantic))
	}
	return badMember(path(semantic.JSONPointer), "is %s: want %s", kindOf(semantic), wanted(semantic.GoType))
}

// path writes /tiers/0/cost as tiers[0].cost.
func path(p jsontext.Pointer) string {
	var b strings.Builder
	for token := range p.Tokens() {
		_, err := strconv.Atoi(token)
		switch {
		case err == nil && b.Len() > 0:
			fmt.Fprintf(&b, "[%s]", token)
		case b.Len() > 0:
			fmt.Fprintf(&b, ".%.50s", token)
		default:
			fmt.Fprintf(&b, "%.50s", token)
		}
	}
	return b.String()
}

func kindOf(err *json.SemanticError) string {
	const readable = 40
	if len(err.JSONValue) > 0 && len(err.JSONValue) <= readable {
		return string(err.JSONValue)
	}
	switch err.JSONKind {
	case 't', 'f':
		return "a boolean"
	case '"':
		return "a string"
	case '0':
		return "a number"
	case '[':
		return "a list"
	case '{':
		return "an object"
	default:
		return "null"
	}
}

func wanted(t reflect.Type) string {
	if t == reflect.TypeFor[time.Time]() {
		return "a time with its zone, such as 2027-01-01T09:30:00Z"
	}
	switch t.Kind() {
	case reflect.Pointer:
		return wanted(t.Elem())
	case reflect.Int64:
		return "a whole number, written without point or exponent, below 2^63"
	case reflect.String:
		return "a string"
	case reflect.Slice:
		return "a list"
	default:
		return "an object"
	}
}
