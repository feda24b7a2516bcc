package lambdalimit

import (
	"encoding/base64"
	"encoding/binary"
	"hash/crc32"
	"slices"

	"github.com/go-json-experiment/json"

	"github.com/sluice-dev/sluice/shared/limit"
)

// A reservation goes over the wire as text that holds all there is to know about
// it, so that the function keeps nothing: receiptVersion and the base64url of a
// CRC-32 and the receipt in JSON. The checksum finds what was cut or retyped; it is
// no secret, since whoever may invoke the function may grant as well.
const receiptVersion = "r1."

func encodeReceipt(r limit.Receipt) string {
	doc, err := json.Marshal(r)
	if err != nil {
		// Charges hold names, keys in UTF-8 and numbers, all of which JSON can say.
		panic(err)
	}
	data := binary.BigEndian.AppendUint32(nil, crc32.ChecksumIEEE(doc))
	return receiptVersion + base64.RawURLEncoding.EncodeToString(append(data, doc...))
}

func decodeReceipt(text string) (limit.Receipt, error) {
	var r limit.Receipt
	bad := badMember("reservation", "is not one that this function has given: pass it on as it was answered")
	if len(text) < len(receiptVersion) || text[:len(receiptVersion)] != receiptVersion {
		return r, bad
	}
	data, err := base64.RawURLEncoding.Strict().DecodeString(text[len(receiptVersion):])
	if err != nil || len(data) < crc32.Size {
		return r, bad
	}
	sum, doc := binary.BigEndian.Uint32(data), data[crc32.Size:]
	if crc32.ChecksumIEEE(doc) != sum || json.Unmarshal(doc, &r, json.RejectUnknownMembers(true)) != nil {
		return r, bad
	}
	outOfRange := func(c limit.Charge) bool {
		return c.Policy == "" || c.Units < 0 || c.Units > limit.MaxUnits || c.Era < 0 || limit.CheckKey(c.Key) != nil
	}
	if !validID(r.ID) || len(r.Charges) > MaxTiers || slices.ContainsFunc(r.Charges, outOfRange) {
		return limit.Receipt{}, bad
	}
	return r, nil
}
