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

// clone copies the strings of k into memory of their own, so that k keeps no object alive.
func (k *key) clone() key {
	s := k.value + k.Namespace + k.Name
	v, n := len(k.value), len(k.value)+len(k.Namespace)
	return key{value: s[:v], Key: object.Key{Namespace: s[v:n], Name: s[n:]}}
}

// span is a range of neighboring keys: those that agree with it in its first fields.
type span struct {
	value, namespace string
	// fields says how many fields have to agree: 0 for all keys, 1 for those of a value, 2 for those of a
	// value and a namespace.
	fields int
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
