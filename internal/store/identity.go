package store

import (
	"encoding/hex"
	"strconv"

	"k8s.io/apimachinery/pkg/types"
)

// identity is the uid and resource version of a folded object. In the form that API servers use,
// both are kept as numbers, which take a third of the memory of their texts.
type identity struct {
	uid     [16]byte
	version uint64
	text    *textIdentity // nil unless one of the two has another form
}

type textIdentity struct {
	uid     types.UID
	version string
}

func identityOf(uid types.UID, version string) identity {
	var id identity
	n, err := strconv.ParseUint(version, 10, 64)
	if err == nil && strconv.FormatUint(n, 10) == version && parseUID(string(uid), &id.uid) {
		id.version = n
		return id
	}
	return identity{text: &textIdentity{uid: types.UID([]byte(uid)), version: string([]byte(version))}}
}

// The positions of the hyphens in a uid.
const uidLength, hyphen1, hyphen2, hyphen3, hyphen4 = 36, 8, 13, 18, 23

// parseUID parses a uid as API servers write it, in lower case.
func parseUID(s string, to *[16]byte) bool {
	if len(s) != uidLength {
		return false
	}
	at := 0
	for i := 0; i < uidLength; i++ {
		if i == hyphen1 || i == hyphen2 || i == hyphen3 || i == hyphen4 {
			if s[i] != '-' {
				return false
			}
			continue
		}
		high, low := digit(s[i]), digit(s[i+1])
		if high > 15 || low > 15 {
			return false
		}
		to[at] = high<<4 | low
		at, i = at+1, i+1
	}
	return true
}

// digit returns the value of a lower-case hexadecimal digit, or more than 15.
func digit(c byte) byte {
	switch {
	case c >= '0' && c <= '9':
		return c - '0'
	case c >= 'a' && c <= 'f':
		return c - 'a' + 10
	default:
		return 255
	}
}

func (id *identity) uidText() types.UID {
	if id.text != nil {
		return id.text.uid
	}
	var b [uidLength]byte
	hex.Encode(b[:], id.uid[:4])
	hex.Encode(b[hyphen1+1:], id.uid[4:6])
	hex.Encode(b[hyphen2+1:], id.uid[6:8])
	hex.Encode(b[hyphen3+1:], id.uid[8:10])
	hex.Encode(b[hyphen4+1:], id.uid[10:])
	b[hyphen1], b[hyphen2], b[hyphen3], b[hyphen4] = '-', '-', '-', '-'
	return types.UID(b[:])
}

func (id *identity) versionText() string {
	if id.text != nil {
		return id.text.version
	}
	return strconv.FormatUint(id.version, 10)
}
