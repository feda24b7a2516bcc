package dynamodbemu

import (
	"encoding/base64"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// maxNesting is the number of levels of lists and maps that an item may have.
const maxNesting = 32

// A wireValue is an attribute value as it is sent, before anything is checked
// but the JSON types.
type wireValue struct {
	S    *string
	N    *string
	B    *[]byte
	BOOL *bool
	NULL *bool
	SS   *[]string
	NS   *[]string
	BS   *[][]byte
	L    *[]wireValue
	M    *wireItem
}

type wireItem map[string]wireValue

// item checks every value, attributes in the order of their names.
func (w wireItem) item() (item, error) {
	out := make(item, len(w))
	for _, name := range sortedKeys(w) {
		v, err := w[name].value()
		if err != nil {
			return nil, err
		}
		if v.depth() > maxNesting {
			return nil, validationError("Nesting Levels have exceeded supported limits: Attributes have nested levels beyond supported limit")
		}
		out[name] = v
	}
	return out, nil
}

func (w wireValue) value() (value, error) {
	var out []value
	var firstErr error
	add := func(v value, err error) {
		out = append(out, v)
		if firstErr == nil {
			firstErr = err
		}
	}
	if w.N != nil {
		add(parseNumber(*w.N))
	}
	if w.NULL != nil {
		add(nullValue(*w.NULL))
	}
	if w.SS != nil {
		add(stringSet(*w.SS))
	}
	if w.NS != nil {
		add(numberSet(*w.NS))
	}
	if w.BS != nil {
		add(binarySet(*w.BS))
	}
	if w.M != nil {
		fields, err := w.M.item()
		add(mapValue(fields), err)
	}
	if w.L != nil {
		add(w.listOf(*w.L))
	}
	if w.S != nil {
		add(stringValue(*w.S), nil)
	}
	if w.B != nil {
		add(value{kind: kindB, text: string(*w.B)}, nil)
	}
	if w.BOOL != nil {
		add(value{kind: kindBool, flag: *w.BOOL}, nil)
	}
	switch {
	case len(out) == 0:
		return value{}, validationError("Supplied AttributeValue is empty, must contain exactly one of the supported datatypes")
	case firstErr != nil:
		return value{}, firstErr
	case len(out) > 1:
		return value{}, validationError("Supplied AttributeValue has more than one datatypes set, must contain exactly one of the supported datatypes")
	}
	return out[0], nil
}

func (w wireValue) listOf(elements []wireValue) (value, error) {
	list := make([]value, 0, len(elements))
	for _, e := range elements {
		v, err := e.value()
		if err != nil {
			return value{}, err
		}
		list = append(list, v)
	}
	return listValue(list), nil
}

func parseNumber(s string) (value, error) {
	d, err := parseDecimal(s)
	return numberValue(d), err
}

func nullValue(b bool) (value, error) {
	if !b {
		return value{}, validationError("One or more parameter values were invalid: Null attribute value types must have the value of true")
	}
	return value{kind: kindNull}, nil
}

func stringSet(members []string) (value, error) {
	if len(members) == 0 {
		return value{}, validationError("One or more parameter values were invalid: An string set  may not be empty")
	}
	if hasDuplicate(members) {
		return value{}, validationErrorf("One or more parameter values were invalid: Input collection [%s] contains duplicates.", strings.Join(members, ", "))
	}
	list := make([]value, len(members))
	for i, m := range members {
		list[i] = stringValue(m)
	}
	return value{kind: kindSS, list: list}, nil
}

func numberSet(members []string) (value, error) {
	if len(members) == 0 {
		return value{}, validationError("One or more parameter values were invalid: An number set  may not be empty")
	}
	list := make([]value, len(members))
	numbers := make([]decimal, len(members))
	for i, m := range members {
		d, err := parseDecimal(m)
		if err != nil {
			return value{}, err
		}
		list[i], numbers[i] = numberValue(d), d
	}
	if hasDuplicate(numbers) {
		return value{}, validationError("Input collection contains duplicates")
	}
	return value{kind: kindNS, list: list}, nil
}

func binarySet(members [][]byte) (value, error) {
	if len(members) == 0 {
		return value{}, validationError("One or more parameter values were invalid: Binary sets should not be empty")
	}
	list := make([]value, len(members))
	texts := make([]string, len(members))
	for i, m := range members {
		texts[i] = string(m)
		list[i] = value{kind: kindB, text: texts[i]}
	}
	if hasDuplicate(texts) {
		return value{}, validationError("One or more parameter values were invalid: Input collection of type BS contains duplicates.")
	}
	return value{kind: kindBS, list: list}, nil
}

func hasDuplicate[T comparable](members []T) bool {
	seen := make(map[T]bool, len(members))
	for _, m := range members {
		if seen[m] {
			return true
		}
		seen[m] = true
	}
	return false
}

func sortedKeys[M ~map[string]V, V any](m M) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

var (
	_ json.MarshalerTo = value{}
	_ json.MarshalerTo = item{}
)

// MarshalJSONTo writes the value as an object with one member, its type.
func (v value) MarshalJSONTo(enc *jsontext.Encoder) error {
	if err := writeTokens(enc, jsontext.BeginObject, jsontext.String(string(v.kind))); err != nil {
		return err
	}
	if err := v.writeContent(enc); err != nil {
		return err
	}
	return enc.WriteToken(jsontext.EndObject)
}

func (v value) writeContent(enc *jsontext.Encoder) error {
	switch v.kind {
	case kindM:
		return v.fields.MarshalJSONTo(enc)
	case kindL:
		return writeList(enc, v.list, value.MarshalJSONTo)
	case kindSS, kindNS, kindBS:
		return writeList(enc, v.list, value.writeContent)
	case kindN:
		return enc.WriteToken(jsontext.String(v.number.String()))
	case kindB:
		return enc.WriteToken(jsontext.String(base64.StdEncoding.EncodeToString([]byte(v.text))))
	case kindBool:
		return enc.WriteToken(jsontext.Bool(v.flag))
	case kindNull:
		return enc.WriteToken(jsontext.True)
	default: // kindS
		return enc.WriteToken(jsontext.String(v.text))
	}
}

func writeList(enc *jsontext.Encoder, list []value, write func(value, *jsontext.Encoder) error) error {
	if err := enc.WriteToken(jsontext.BeginArray); err != nil {
		return err
	}
	for _, v := range list {
		if err := write(v, enc); err != nil {
			return err
		}
	}
	return enc.WriteToken(jsontext.EndArray)
}

// MarshalJSONTo writes the attributes in the order of their names.
func (it item) MarshalJSONTo(enc *jsontext.Encoder) error {
	if err := enc.WriteToken(jsontext.BeginObject); err != nil {
		return err
	}
	for _, name := range sortedKeys(it) {
		if err := enc.WriteToken(jsontext.String(name)); err != nil {
			return err
		}
		if err := it[name].MarshalJSONTo(enc); err != nil {
			return err
		}
	}
	return enc.WriteToken(jsontext.EndObject)
}

func writeTokens(enc *jsontext.Encoder, tokens ...jsontext.Token) error {
	for _, t := range tokens {
		if err := enc.WriteToken(t); err != nil {
			return err
		}
	}
	return nil
}
