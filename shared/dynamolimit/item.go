package dynamolimit

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math/big"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/sluice-dev/sluice/shared/limit"
)

// A place is where states are kept: one item per group and key.
type place struct{ group, key string }

func (p place) String() string { return fmt.Sprintf("%s[%q]", p.group, p.key) }

// plainKeyBytes is the length up to which a key stands in the partition key as it
// is, for people to read; a longer one is hashed, since every write pays for the
// length of its item.
const plainKeyBytes = 256

// itemKey returns the primary key of a place. A group contains no colon, so that no
// two places share one.
func (p place) itemKey() attributes {
	pk := "k:" + p.group + ":" + p.key
	if len(p.key) > plainKeyBytes {
		sum := sha256.Sum256([]byte(p.key))
		pk = "h:" + p.group + ":" + hex.EncodeToString(sum[:])
	}
	return attributes{partitionKey: text(pk), sortKey: text("state")}
}

// The attributes of an item: four numbers per policy, named by their letter and the
// policy, the ids of the last writes, the newest first, and their number.
const (
	eraAttribute      = 'e'
	positionAttribute = 'p'
	givenAttribute    = 'g'
	holdAttribute     = 'h'

	countAttribute = "n"
	rememberedIDs  = 8
)

func idAttribute(i int) string { return "r" + strconv.Itoa(i) }

// safeName turns a policy's name into letters, digits and underscores, without which
// some stores misread an expression. No two names become the same.
var safeName = strings.NewReplacer("_", "__", ".", "_d", "-", "_h")

func attribute(letter rune, policy string) string {
	return string(letter) + "_" + safeName.Replace(policy)
}

// An item is what is stored about one place; nil if nothing is.
type item attributes

// state returns the State of a policy in the item.
func (i item) state(policy string) (limit.State, error) {
	era, err := i.whole(attribute(eraAttribute, policy))
	if err != nil {
		return limit.State{}, err
	}
	hold, err := i.whole(attribute(holdAttribute, policy))
	if err != nil {
		return limit.State{}, err
	}
	position, err := i.number(attribute(positionAttribute, policy))
	if err != nil {
		return limit.State{}, err
	}
	given, err := i.number(attribute(givenAttribute, policy))
	if err != nil {
		return limit.State{}, err
	}
	return limit.State{Era: era, Position: position, Given: given, Hold: hold}, nil
}

// writes returns how many writes with an id there have been.
func (i item) writes() int64 {
	n, err := i.whole(countAttribute)
	if err != nil {
		return 0
	}
	return n
}

// expires returns when the item may be deleted, in epoch seconds; 0 if it is not said.
func (i item) expires() int64 {
	n, err := i.whole(TTLAttribute)
	if err != nil {
		return 0
	}
	return n
}

// newest returns the id of the last write.
func (i item) newest() string {
	if s, ok := i[idAttribute(0)].(*types.AttributeValueMemberS); ok {
		return s.Value
	}
	return ""
}

// remembers reports whether a write is among the last ones.
func (i item) remembers(id string) bool {
	for n := range rememberedIDs {
		if s, ok := i[idAttribute(n)].(*types.AttributeValueMemberS); ok && s.Value == id {
			return true
		}
	}
	return false
}

// number returns a numeric attribute, 0 if there is none.
func (i item) number(name string) (limit.Num, error) {
	value, ok := i[name]
	if !ok {
		return limit.Num{}, nil
	}
	n, ok := value.(*types.AttributeValueMemberN)
	if !ok {
		return limit.Num{}, fmt.Errorf("the table's attribute %s is not a number: it was written by another program", name)
	}
	parsed, err := parseNumber(n.Value)
	if err != nil {
		return limit.Num{}, fmt.Errorf("the table's attribute %s: %w", name, err)
	}
	return parsed, nil
}

func (i item) whole(name string) (int64, error) {
	n, err := i.number(name)
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(n.String(), 10, 64)
}

// parseNumber reads a whole number in any of the forms in which stores write it, such
// as 1000, 1E+3 and 1000.0.
func parseNumber(s string) (limit.Num, error) {
	n, err := limit.ParseNum(s)
	if err == nil {
		return n, nil
	}
	const mostDigits = 60
	_, exponent, _ := strings.Cut(strings.ToLower(s), "e")
	if len(s) > mostDigits || len(exponent) > len("+125") {
		return limit.Num{}, err
	}
	r, ok := new(big.Rat).SetString(s)
	if !ok || !r.IsInt() {
		return limit.Num{}, err
	}
	return limit.ParseNum(r.Num().String())
}

// setState puts a State into the item, as its writes do.
func (i item) setState(policy string, s limit.State) {
	i[attribute(eraAttribute, policy)] = wholeValue(s.Era)
	i[attribute(positionAttribute, policy)] = &types.AttributeValueMemberN{Value: s.Position.String()}
	if (s.Given != limit.Num{}) {
		i[attribute(givenAttribute, policy)] = &types.AttributeValueMemberN{Value: s.Given.String()}
	}
}
