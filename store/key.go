package store

import (
	"strings"

	"github.com/tidings/tidings/object"
)

// key is the place of an item in a tree: by value, then namespace, then name. Value is empty in the tree of the
// objects; in the tree of an index it is the indexed value.
type key struct {
	value string
	object.Key
}

// compare orders keys. Values and namespaces repeat, so testing for equality first is the quick way: strings of
// different length or the same memory need no look at their bytes.
func (k *key) compare(other *key) int {
	if k.value != other.value {
		return strings.Compare(k.value, other.value)
	}
	if k.Namespace != other.Namespace {
		return strings.Compare(k.Namespace, other.Namespace)
	}
	return strings.Compare(k.Name, other.Name)
}

// bound is a key in memory of its own, so that it keeps no object alive. It takes less room than a key: its
// strings are the parts of one.
type bound struct {
	text string
	// value and namespace are where these two end in text; the name is the rest.
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

// key returns b as a key, whose strings are those of b.
func (b *bound) key() key {
	return key{
		value: b.text[:b.value],
		Key:   object.Key{Namespace: b.text[b.value:b.namespace], Name: b.text[b.namespace:]},
	}
}

// span is a range of neighboring keys: those that agree with it in its first fields.
type span struct {
	value, namespace string
	// fields says how many fields have to agree: 0 for all keys, 1 for those of a value, 2 for those of a
	// value and a namespace.
	fields int
}

// within returns the span of a namespace in the tree of keys, "" for all.
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
