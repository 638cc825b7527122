package store

import (
	"strings"

	"github.com/tidings/tidings/object"
)

// key is the sort key of an item in a tree: value, then namespace, then name. value is empty in the key tree; in the tree of
// an index it is the indexed value.
type key struct {
	value string
	object.Key
}

// compare orders keys. Values and namespaces repeat, so testing for equality first is fast: strings of different length or
// at the same address are decided without reading their bytes.
func (k *key) compare(other *key) int {
	if k.value != other.value {
		return strings.Compare(k.value, other.value)
	}
	if k.Namespace != other.Namespace {
		return strings.Compare(k.Namespace, other.Namespace)
	}
	return strings.Compare(k.Name, other.Name)
}

// bound is a copy of a key in its own memory, so that it keeps no object alive. It is smaller than a key, since its strings
// are parts of one.
type bound struct {
	text string
	// value and namespace are the ends of these two in text; the name is the rest.
	value, namespace uint32
}

// bound returns a copy of k as a bound.
func (k *key) bound() bound {
	return bound{
		text:      k.value + k.Namespace + k.Name,
		value:     uint32(len(k.value)),
		namespace: uint32(len(k.value) + len(k.Namespace)),
	}
}

// key returns b as a key whose strings are parts of b.
func (b *bound) key() key {
	return key{
		value: b.text[:b.value],
		Key:   object.Key{Namespace: b.text[b.value:b.namespace], Name: b.text[b.namespace:]},
	}
}

// span is a range of adjacent keys: those whose first fields equal the span's.
type span struct {
	value, namespace string
	// fields is the number of fields that must be equal: 0 for all keys, 1 for those of a value, 2 for those of a
	// value and a namespace.
	fields int
}

// within returns the span of a namespace in the key tree, "" for all.
func within(namespace string) span {
	if namespace == "" {
		return span{}
	}
	return span{namespace: namespace, fields: 2}
}

// start returns the smallest key that may be in s.
func (s *span) start() key {
	return key{value: s.value, Key: object.Key{Namespace: s.namespace}}
}

// has reports whether k is in s.
func (s *span) has(k *key) bool {
	switch s.fields {
	case 0:
		return true
	case 1:
		return k.value == s.value
	default:
		return k.Namespace == s.namespace && k.value == s.value
	}
}
