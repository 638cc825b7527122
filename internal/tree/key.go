package tree

import (
	"strings"

	"github.com/tidings/tidings/object"
)

// SortKey is the sort key of an item in a tree: value, then namespace, then name. value is empty in
// the key tree; in the tree of an index it is the indexed value.
type SortKey struct {
	Value string
	object.Key
}

// Compare orders keys. Values and namespaces repeat, so testing for equality first is fast: strings
// of different length or at the same address are decided without reading their bytes.
func (k *SortKey) Compare(other *SortKey) int {
	if k.Value != other.Value {
		return strings.Compare(k.Value, other.Value)
	}
	if k.Namespace != other.Namespace {
		return strings.Compare(k.Namespace, other.Namespace)
	}
	return strings.Compare(k.Name, other.Name)
}

// bound is a copy of a key in its own memory, so that it keeps no object alive. It is smaller than
// a key, since its strings are parts of one.
type bound struct {
	text string
	// value and namespace are the ends of these two in text; the name is the rest.
	value, namespace uint32
}

// bound returns a copy of k as a bound.
func (k *SortKey) bound() bound {
	return bound{
		text:      k.Value + k.Namespace + k.Name,
		value:     uint32(len(k.Value)),
		namespace: uint32(len(k.Value) + len(k.Namespace)),
	}
}

// key returns b as a key whose strings are parts of b.
func (b *bound) key() SortKey {
	return SortKey{
		Value: b.text[:b.value],
		Key:   object.Key{Namespace: b.text[b.value:b.namespace], Name: b.text[b.namespace:]},
	}
}

// Span is a range of adjacent keys: those whose first fields equal the span's.
type Span struct {
	value, namespace string
	// fields is the number of fields that must be equal: 0 for all keys, 1 for those of a value, 2
	// for those of a value and a namespace.
	fields int
}

// OfValue returns the span of a value in the tree of an index.
func OfValue(value string) Span { return Span{value: value, fields: 1} }

// Within returns the span of a namespace in the key tree, "" for all.
func Within(namespace string) Span {
	if namespace == "" {
		return Span{}
	}
	return Span{namespace: namespace, fields: 2}
}

// start returns the smallest key that may be in s.
func (s *Span) start() SortKey {
	return SortKey{Value: s.value, Key: object.Key{Namespace: s.namespace}}
}

// has reports whether k is in s.
func (s *Span) has(k *SortKey) bool {
	switch s.fields {
	case 0:
		return true
	case 1:
		return k.Value == s.value
	default:
		return k.Namespace == s.namespace && k.Value == s.value
	}
}
