package json

import "github.com/tidings/tidings/internal/wire"

// peek finds the identity of the object in data. It reads no further than the first metadata, so it does not validate
// what follows, and it allocates nothing. It gives up on strings that are not plain ASCII.
func peek(data []byte) (wire.Meta, bool) {
	for m := walk(data); m.next(); {
		if string(m.name) == `"metadata"` {
			return peekMetadata(m.value)
		}
	}
	return wire.Meta{}, false
}

func peekMetadata(text []byte) (meta wire.Meta, ok bool) {
	m := walk(text)
	for m.next() { // to the end: the last of duplicates would win
		var to *[]byte
		switch string(m.name) {
		case `"namespace"`:
			to = &meta.Namespace
		case `"name"`:
			to = &meta.Name
		case `"uid"`:
			to = &meta.UID
		case `"resourceVersion"`:
			to = &meta.ResourceVersion
		default:
			continue
		}
		if *to != nil || m.value[0] != '"' || !isPlain(m.value) {
			return wire.Meta{}, false
		}
		*to = m.value[1 : len(m.value)-1]
	}
	if m.err != nil || len(meta.Name) == 0 {
		return wire.Meta{}, false
	}
	return meta, true
}
