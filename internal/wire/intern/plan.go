package intern

import (
	"encoding"
	"encoding/json"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"k8s.io/apimachinery/pkg/api/resource"
)

// kind says what a reference refers to.
type kind uint8

const (
	text kind = iota
	pointer
	slice
	mapping
	// other is what has state of its own, such as interfaces and types with unexported fields. Such
	// values are equal only if both are nil, and are never copied.
	other
)

// plan describes the memory of a type: words that mean themselves, and references.
type plan struct {
	typ   reflect.Type
	words []span // without the padding between fields
	refs  []*ref
	// opaque is set if a value must be neither compared nor copied.
	opaque bool
}

// span is a part of a value's memory.
type span struct{ offset, size uintptr }

// ref is a reference in a value.
type ref struct {
	offset uintptr
	kind   kind
	typ    reflect.Type
	form   mapForm
	name   string // of the field; empty for elements of slices and maps, and for embedded structs
	id     int    // of the place among all places
	salt   uint64 // of the type
	elem   atomic.Pointer[plan]
	// keys and texts are the places of a map's keys and of its values, if they are strings.
	keys, texts *ref
}

// mapForm says how the entries of a map are read.
type mapForm uint8

const (
	anyMap mapForm = iota
	textMap
	quantityMap
)

var (
	plansMu sync.Mutex
	plans   = map[reflect.Type]*plan{}
	places  int
	salts   = map[reflect.Type]uint64{}
)

// planOf returns the plan of a type. Plans are made once per program, and only of types that occur.
func planOf(t reflect.Type) *plan {
	plansMu.Lock()
	defer plansMu.Unlock()
	return planLocked(t)
}

func planLocked(t reflect.Type) *plan {
	p := plans[t]
	if p == nil {
		p = &plan{typ: t}
		p.collect(t, 0, "")
		plans[t] = p
	}
	return p
}

// target returns the plan of what r refers to: the elements of a slice, the values of a map, or the pointee.
func (r *ref) target() *plan {
	if p := r.elem.Load(); p != nil {
		return p
	}
	p := planOf(r.typ.Elem())
	r.elem.Store(p)
	return p
}

var (
	timeType     = reflect.TypeFor[time.Time]()
	quantityType = reflect.TypeFor[resource.Quantity]()
)

// collect adds the words and references of a value of type t at offset.
func (p *plan) collect(t reflect.Type, offset uintptr, name string) {
	switch {
	case t == timeType:
		p.addWords(offset, t.Size())
	case t.Kind() == reflect.String:
		p.addRef(t, offset, name, text)
	case isOwnState(t):
		p.opaque = true
	default:
		p.collectKind(t, offset, name)
	}
}

func (p *plan) collectKind(t reflect.Type, offset uintptr, name string) {
	switch t.Kind() {
	case reflect.Struct:
		for f := range t.Fields() {
			p.collect(f.Type, offset+f.Offset, joined(name, fieldName(f)))
		}
	case reflect.Array:
		for i := range t.Len() {
			p.collect(t.Elem(), offset+uintptr(i)*t.Elem().Size(), name)
		}
	case reflect.Pointer, reflect.Slice:
		k := pointer
		if t.Kind() == reflect.Slice {
			k = slice
		}
		if isOpaque(t.Elem()) {
			k = other
		}
		p.addRef(t, offset, name, k)
	case reflect.Map:
		k := mapping
		if t.Key().Kind() != reflect.String || isOpaque(t.Elem()) {
			k = other
		}
		p.addRef(t, offset, name, k)
	case reflect.Interface, reflect.Func, reflect.Chan, reflect.UnsafePointer:
		p.addRef(t, offset, name, other)
	default:
		p.addWords(offset, t.Size())
	}
}

func (p *plan) addWords(offset, size uintptr) {
	if last := len(p.words) - 1; last >= 0 && p.words[last].offset+p.words[last].size == offset {
		p.words[last].size += size
		return
	}
	p.words = append(p.words, span{offset, size})
}

func (p *plan) addRef(t reflect.Type, offset uintptr, name string, k kind) {
	salt, ok := salts[t]
	if k == text {
		salt, ok = textSalt, true
	}
	if !ok {
		salt = uint64(len(salts) + 2)
		salts[t] = salt
	}
	r := &ref{offset: offset, kind: k, typ: t, name: name, id: places, salt: salt, form: mapFormOf(t)}
	places++
	if k == mapping {
		r.keys, r.texts = &ref{kind: text, id: places, salt: textSalt}, &ref{kind: text, id: places + 1, salt: textSalt}
		places += 2
	}
	p.refs = append(p.refs, r)
}

// textSalt is the salt of strings of all types, which are the same in memory.
const textSalt = 1

func mapFormOf(t reflect.Type) mapForm {
	switch {
	case t.Kind() != reflect.Map || t.Key().Kind() != reflect.String:
	case t.Elem().Kind() == reflect.String:
		return textMap
	case t.Elem() == quantityType:
		return quantityMap
	}
	return anyMap
}

// isOpaque reports whether values of type t must be neither compared nor copied.
func isOpaque(t reflect.Type) bool {
	switch {
	case t == timeType || t.Kind() == reflect.String:
		return false
	case isOwnState(t):
		return true
	case t.Kind() == reflect.Array:
		return isOpaque(t.Elem())
	case t.Kind() == reflect.Struct:
		for f := range t.Fields() {
			if isOpaque(f.Type) {
				return true
			}
		}
	}
	return false
}

// knownPackages are those whose types are known to hold nothing but their contents, in unexported
// fields too, and however they are decoded.
var knownPackages = []string{"k8s.io/api/", "k8s.io/apimachinery/", "k8s.io/apiextensions-apiserver/"}

// isOwnState reports whether t may have state besides its contents: it has unexported fields, or
// decodes itself in a way of its own.
func isOwnState(t reflect.Type) bool {
	for _, known := range knownPackages {
		if strings.HasPrefix(t.PkgPath(), known) {
			return false
		}
	}
	if t.PkgPath() != "" && decodesItself(reflect.PointerTo(t)) {
		return true
	}
	if t.Kind() == reflect.Struct {
		for f := range t.Fields() {
			if !f.IsExported() {
				return true
			}
		}
	}
	return false
}

func decodesItself(t reflect.Type) bool {
	return t.Implements(reflect.TypeFor[json.Unmarshaler]()) || t.Implements(reflect.TypeFor[encoding.TextUnmarshaler]())
}

// fieldName returns a field's name in JSON, which is empty if the field's own fields take its place.
func fieldName(f reflect.StructField) string {
	name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
	switch {
	case name != "":
		return name
	case f.Anonymous || strings.Contains(options, "inline"):
		return ""
	}
	return f.Name
}

func joined(path, name string) string {
	if path == "" || name == "" {
		return path + name
	}
	return path + "." + name
}

// header is the memory of a slice.
type header struct {
	data     unsafe.Pointer
	len, cap int
}
