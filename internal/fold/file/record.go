package file

import (
	"encoding/binary"
	"fmt"

	"github.com/tidings/tidings/internal/fold"
)

// Record is one object of a file.
type Record struct {
	Namespace, Name, UID, ResourceVersion string
	// Extra belongs to the caller, for example for index values, so that the object need not be opened for them.
	Extra string
	// Object is the packed object. Reading a file does not check that it opens.
	Object fold.Packed
}

// Size returns roughly how many bytes of the file the record takes.
func (r Record) Size() int {
	return len(r.Namespace) + len(r.Name) + len(r.UID) + len(r.ResourceVersion) + len(r.Extra) + r.Object.Size()
}

// append appends the record. dictionary is the number of its dictionary, 0 for none.
func (r Record) append(b []byte, dictionary uint64) []byte {
	for _, s := range [...]string{r.Namespace, r.Name, r.UID, r.ResourceVersion, r.Extra} {
		b = appendString(b, s)
	}
	b = binary.AppendUvarint(b, dictionary)
	b = binary.AppendUvarint(b, uint64(r.Object.Size()))
	return append(b, r.Object.Bytes()...)
}

// record reads a record that may refer to these dictionaries.
func (v *values) record(dictionaries []*fold.Dictionary) (Record, error) {
	r := Record{Namespace: v.string(), Name: v.string(), UID: v.string(), ResourceVersion: v.string(), Extra: v.string()}
	number, packed := v.number(), v.bytes()
	if v.err != nil {
		return Record{}, v.err
	}
	if number > uint64(len(dictionaries)) {
		return Record{}, fmt.Errorf("refers to dictionary %d of %d", number, len(dictionaries))
	}
	var dictionary *fold.Dictionary
	if number > 0 {
		dictionary = dictionaries[number-1]
	}
	var err error
	if r.Object, err = fold.FromBytes(dictionary, packed); err != nil {
		return Record{}, fmt.Errorf("has %s/%s as a %w", r.Namespace, r.Name, err)
	}
	return r, nil
}
