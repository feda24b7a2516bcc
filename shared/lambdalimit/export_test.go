package lambdalimit

import (
	"maps"
	"slices"
)

// CheckRequest returns what decoding a request finds.
func CheckRequest(payload []byte) error {
	_, err := decode(payload)
	return err
}

// Ops returns all operations.
func Ops() []Op { return slices.Sorted(maps.Keys(shapes)) }

// Members returns the members of an operation's request.
func Members(op Op) (required, optional []string) {
	return shapes[op].required, shapes[op].optional
}
