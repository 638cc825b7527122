package proto

import "github.com/tidings/tidings/internal/wire"

// The field numbers of metav1.ObjectMeta that Peek reads.
const (
	metaName            = 1
	metaNamespace       = 3
	metaUID             = 5
	metaResourceVersion = 6
)

// Peek implements wire.Decoder. It allocates nothing and looks only at the top level of the object and its metadata, so
// data that it accepts may still be malformed. It may be called while Decode runs.
func (dec *Decoder[T]) Peek(data []byte) (wire.Meta, bool) {
	if !dec.identified {
		return wire.Meta{}, false
	}
	return peek(data)
}

func peek(data []byte) (meta wire.Meta, ok bool) {
	raw, ok := only(data, 1)
	if !ok {
		return wire.Meta{}, false
	}
	for i := 0; i < len(raw); {
		num, kind, next, err := tag(raw, i)
		if err != nil {
			return wire.Meta{}, false
		}
		field := metaField(&meta, num)
		if field == nil {
			if num > metaResourceVersion && meta.ResourceVersion != nil {
				break // servers write fields in order
			}
			if i, err = skip(raw, i); err != nil {
				return wire.Meta{}, false
			}
			continue
		}
		from, to, err := prefixed(raw, next)
		if err != nil || kind != bytesWire {
			return wire.Meta{}, false
		}
		*field, i = raw[from:to:to], to
	}
	return meta, len(meta.Name) > 0
}

// firstUID returns the uid of the object in data, or nothing if there is none. It does not read the metadata beyond it.
func firstUID(data []byte) []byte {
	meta, _ := only(data, 1)
	for i := 0; i < len(meta); {
		num, kind, next, err := tag(meta, i)
		if err != nil {
			return nil
		}
		if num == metaUID && kind == bytesWire {
			from, to, _ := prefixed(meta, next)
			return meta[from:to]
		}
		if i, err = skip(meta, i); err != nil {
			return nil
		}
	}
	return nil
}

func metaField(meta *wire.Meta, num int32) *[]byte {
	switch num {
	case metaName:
		return &meta.Name
	case metaNamespace:
		return &meta.Namespace
	case metaUID:
		return &meta.UID
	case metaResourceVersion:
		return &meta.ResourceVersion
	}
	return nil
}

// only returns the bytes of field num, which must occur exactly once.
func only(b []byte, num int32) (field []byte, ok bool) {
	for i := 0; i < len(b); {
		n, kind, next, err := tag(b, i)
		if err != nil {
			return nil, false
		}
		if n != num {
			if i, err = skip(b, i); err != nil {
				return nil, false
			}
			continue
		}
		from, to, err := prefixed(b, next)
		if err != nil || kind != bytesWire || ok {
			return nil, false
		}
		field, ok, i = b[from:to], true, to
	}
	return field, ok
}
