package budget

import (
	"reflect"
	"time"
	"unsafe"
)

// sizer adds up the memory of objects. Shared memory counts once.
type sizer struct {
	seen  map[unsafe.Pointer]struct{}
	bytes int64
	left  int // number of values it may still visit
	// withoutText is set if strings are parts of other memory.
	withoutText bool
}

// maxSized bounds the values visited, for objects that are huge or contain themselves in ways that
// pointers do not show.
const maxSized = 1 << 20

// SizeOf returns the memory of all objects together.
func SizeOf[T any](objects []T) int64 {
	s := sizer{seen: make(map[unsafe.Pointer]struct{}), left: maxSized}
	return add(&s, objects)
}

// SizeWithoutText is SizeOf for objects whose strings are parts of memory that was counted already.
func SizeWithoutText[T any](objects []T) int64 {
	s := sizer{seen: make(map[unsafe.Pointer]struct{}), left: maxSized, withoutText: true}
	return add(&s, objects)
}

// MeanOf returns the mean size of objects.
func MeanOf[T any](objects []T) float64 {
	return max(1, float64(SizeOf(objects))/float64(len(objects)))
}

// add adds up the objects. If there is too much in them to visit, the rest is assumed to be like
// those visited completely.
func add[T any](s *sizer, objects []T) int64 {
	for i, o := range objects {
		before := s.bytes
		if s.follow(reflect.ValueOf(o)); s.left <= 0 && i > 0 {
			return before * int64(len(objects)) / int64(i)
		}
	}
	return s.bytes
}

// allocate counts an allocation, unless it was counted. Go's size classes are about an eighth apart.
func (s *sizer) allocate(at unsafe.Pointer, size int) (first bool) {
	if at == nil || size == 0 {
		return false
	}
	if _, known := s.seen[at]; known {
		return false
	}
	s.seen[at] = struct{}{}
	if size <= 128 {
		size = (size + 15) &^ 15
	} else {
		size += size / 16
	}
	s.bytes += int64(size)
	return true
}

// follow counts the memory that v refers to. The memory of v itself is part of something that was counted.
func (s *sizer) follow(v reflect.Value) {
	if s.left--; s.left <= 0 {
		return
	}
	switch v.Kind() {
	case reflect.String:
		s.text(v.String())
	case reflect.Pointer:
		if !v.IsNil() && s.allocate(v.UnsafePointer(), int(v.Type().Elem().Size())) {
			s.follow(v.Elem())
		}
	case reflect.Interface:
		s.followInterface(v)
	case reflect.Slice:
		if s.allocate(v.UnsafePointer(), v.Cap()*int(v.Type().Elem().Size())) {
			s.followAll(v)
		}
	case reflect.Array:
		s.followAll(v)
	case reflect.Map:
		s.followMap(v)
	case reflect.Struct:
		s.followFields(v)
	}
}

// text counts a string.
func (s *sizer) text(text string) {
	at := unsafe.Pointer(unsafe.StringData(text))
	if _, known := s.seen[at]; !known && len(text) > 0 && !s.withoutText {
		s.seen[at] = struct{}{}
		s.bytes += int64(len(text)+7) &^ 7
	}
}

func (s *sizer) followInterface(v reflect.Value) {
	if v.IsNil() {
		return
	}
	e := v.Elem()
	if e.Kind() != reflect.Pointer && e.Kind() != reflect.Map { // these are in the interface itself
		s.bytes += int64(e.Type().Size()+7) &^ 7
	}
	s.follow(e)
}

func (s *sizer) followAll(v reflect.Value) {
	if !refers(v.Type().Elem()) {
		return
	}
	for i := range v.Len() {
		s.follow(v.Index(i))
	}
}

// Sizes of Go's maps: the overhead of a map of up to mapGroup entries, and the slots per entry of a larger one.
const (
	mapHeader = 48 + 8
	mapGroup  = 8
	mapSpare  = 1.4 // slots per entry of a larger one
)

func (s *sizer) followMap(v reflect.Value) {
	if v.IsNil() {
		return
	}
	places := 0.0 // an empty map has no group
	switch n := v.Len(); {
	case n > mapGroup:
		places = mapSpare * float64(n)
	case n > 0:
		places = mapGroup
	}
	entry := v.Type().Key().Size() + v.Type().Elem().Size()
	if !s.allocate(v.UnsafePointer(), mapHeader+int(places*float64(entry))) {
		return
	}
	for entries := v.MapRange(); entries.Next(); {
		s.follow(entries.Key())
		s.follow(entries.Value())
	}
}

func (s *sizer) followFields(v reflect.Value) {
	if v.Type() == reflect.TypeFor[time.Time]() {
		return // its Location is shared by all
	}
	for i := range v.NumField() {
		if f := v.Field(i); refers(f.Type()) {
			s.follow(f)
		}
	}
}

// refers reports whether values of the type can refer to memory.
func refers(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.String, reflect.Pointer, reflect.Interface, reflect.Slice, reflect.Array, reflect.Map, reflect.Struct:
		return true
	default:
		return false
	}
}
