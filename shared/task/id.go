package task

import (
	"crypto/sha256"
	"encoding/base32"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/google/uuid"
)

// MaxIDBytes is the length of the longest id. Together with a second in base
// 36 it fits the 64 characters of a schedule's name.
const MaxIDBytes = 52

var (
	idGrammar   = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]{0,51}$`)
	typeGrammar = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.:/-]{0,127}$`)
)

// ValidateID tells whether the id can name a task: 1 to 52 of A-Z a-z 0-9 _
// and -, the first a letter or digit. Such an id needs no URL-encoding.
func ValidateID(id string) error {
	if !idGrammar.MatchString(id) {
		return fmt.Errorf("task id %s is not valid: use 1 to %d of A-Z a-z 0-9 _ -, starting with a letter or digit", quoteShort(id), MaxIDBytes)
	}
	return nil
}

// ValidateType tells whether the text can be a task type: 1 to 128 of A-Z a-z
// 0-9 _ . : / and -, the first a letter, digit or _.
func ValidateType(taskType string) error {
	if !typeGrammar.MatchString(taskType) {
		return fmt.Errorf("task_type %s is not valid: use 1 to 128 of A-Z a-z 0-9 _ . : / -, starting with a letter, digit or _", quoteShort(taskType))
	}
	return nil
}

// Shard is the first hex digit of the SHA-256 of the id. It spreads the
// objects of tasks over 16 prefixes of the bucket.
func Shard(id string) string {
	sum := sha256.Sum256([]byte(id))
	return hex.EncodeToString(sum[:1])[:1]
}

// Shards lists the 16 shards.
func Shards() []string { return strings.Split("0123456789abcdef", "") }

// derivedPrefix starts every derived id. It sorts behind the hex digit 0 that
// starts the UUIDs of the next centuries.
const derivedPrefix = "k"

var derivedEncoding = base32.HexEncoding.WithPadding(base32.NoPadding)

// DeriveID turns an idempotency key into a task id, so that two submitters of
// one key race for one object: "k" and the first 25 bytes of
//
//	SHA-256(length of scope as 8 bytes, big-endian; scope; key)
//
// in lower-case base32hex. The length keeps (a, bc) and (ab, c) apart.
func DeriveID(scope, key string) string {
	h := sha256.New()
	var n [8]byte
	binary.BigEndian.PutUint64(n[:], uint64(len(scope)))
	h.Write(n[:])
	h.Write([]byte(scope))
	h.Write([]byte(key))
	return derivedPrefix + strings.ToLower(derivedEncoding.EncodeToString(h.Sum(nil)[:25]))
}

// IDTime is the millisecond at which an id was made that is a UUIDv7. False
// for any other id.
func IDTime(id string) (time.Time, bool) {
	u, err := uuid.Parse(id)
	if err != nil || u.Version() != 7 || u.String() != id {
		return time.Time{}, false
	}
	ms := int64(binary.BigEndian.Uint64(append([]byte{0, 0}, u[:6]...)))
	return time.UnixMilli(ms).UTC(), true
}

// mostQuoted is how many bytes of text from outside an error shows.
const mostQuoted = 80

// quoteShort quotes text from outside for an error, cut to a readable length.
func quoteShort(s string) string {
	if len(s) > mostQuoted {
		return fmt.Sprintf("%q… (%d bytes)", s[:mostQuoted], len(s))
	}
	return fmt.Sprintf("%q", s)
}

// short cuts JSON text from outside for an error.
func short(s string) string {
	if len(s) > mostQuoted {
		return fmt.Sprintf("%s… (%d bytes)", strings.ToValidUTF8(s[:mostQuoted], ""), len(s))
	}
	return s
}
