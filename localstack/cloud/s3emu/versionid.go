package s3emu

import (
	"crypto/aes"
	"encoding/base64"
	"encoding/binary"
)

// A version id is 32 characters: one AES block that hides the version's
// sequence number together with 8 random bytes, and 8 more random bytes.
//
// Hiding the number lets a listing go on after a version that was deleted
// between two pages, as a purge does, while nobody can guess an id or read an
// order from it.
const versionIDBytes = aes.BlockSize + 8

func (s *state) newVersionID(sequence uint64) string {
	id := randomBytes(versionIDBytes)
	binary.BigEndian.PutUint64(id, sequence)
	s.versionCipher(id, false)
	return base64.RawURLEncoding.EncodeToString(id)
}

// sequenceOf reads the sequence number from a version id. It is false for
// what cannot be a version id. The null version's number is not in its id: 0.
func (s *state) sequenceOf(id string) (sequence uint64, ok bool) {
	if id == nullVersion {
		return 0, true
	}
	b, err := base64.RawURLEncoding.DecodeString(id)
	if err != nil || len(b) != versionIDBytes {
		return 0, false
	}
	s.versionCipher(b, true)
	return binary.BigEndian.Uint64(b), true
}

func (s *state) versionCipher(id []byte, decrypt bool) {
	block, err := aes.NewCipher(s.VersionKey[:])
	if err != nil {
		panic(err) // the key has a length that AES knows
	}
	if decrypt {
		block.Decrypt(id[:aes.BlockSize], id[:aes.BlockSize])
	} else {
		block.Encrypt(id[:aes.BlockSize], id[:aes.BlockSize])
	}
}

func invalidVersionID(id string) error {
	return invalidArgument("Invalid version id specified", "versionId", id)
}
