package source

import (
	"errors"
	"reflect"
	"sync"

	"github.com/tidings/tidings/internal/wire"
	"github.com/tidings/tidings/object"
)

// Sharer lets objects share equal parts that do not come from a decoder which did that: objects
// that a transform returned, or that a client decoded. It encodes each object and decodes it again.
// The zero value is ready to use. Its methods may be called from any goroutine.
type Sharer[T object.Object] struct {
	// MaxSharedBytes limits the memory in bytes for remembering shared parts of each type of
	// object; 0 means a default that suits collections of any size.
	MaxSharedBytes int
	// OnStrayWrite, if not nil, is called during Share for each shared part that somebody has
	// written to. field is where it was noticed, such as "metadata.labels".
	OnStrayWrite func(field string)

	sharing sync.Mutex // held while sharing
	buf     []byte

	mu    sync.Mutex                      // guards types; never held for long
	types map[reflect.Type]*typeSharer[T] // a transform may return objects of several types; nil for types that cannot share
}

// typeSharer is a Sharer of objects of one type.
type typeSharer[T object.Object] struct {
	codec   *Codec[T]
	decoder wire.Decoder[T]
}

// Share returns a copy of obj that shares equal parts with objects that it returned earlier, and
// with previous, an earlier version of it or the zero T. It keeps no reference to obj. It returns
// obj itself if its type shares nothing, as structs for custom resources do, or if encoding it
// would lose information.
func (s *Sharer[T]) Share(obj, previous T) T {
	of := s.forType(reflect.TypeOf(obj))
	if of == nil {
		return obj
	}
	s.sharing.Lock()
	defer s.sharing.Unlock()
	if cap(s.buf) > maxSharerBuffer {
		s.buf = nil
	}
	shared, buf, err := of.share(s.buf[:0], obj, previous)
	s.buf = buf
	if errors.Is(err, ErrLossy) {
		shared, err = of.shareWithEmpty(s.buf[:0], obj, previous)
	}
	if err != nil {
		return obj
	}
	return shared
}

// maxSharerBuffer bounds the buffer that is kept for the next object.
const maxSharerBuffer = 256 << 10

// Recheck makes the sharer verify shared parts again before it reuses them. Call it before a batch
// of objects if others may have received those of the previous one.
func (s *Sharer[T]) Recheck() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, of := range s.types {
		if of != nil {
			of.decoder.Recheck()
		}
	}
}

// SharedBytes returns the memory, in bytes, that the sharer uses for shared parts and for its plans of types.
func (s *Sharer[T]) SharedBytes() (bytes int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, of := range s.types {
		if of != nil {
			stats := of.decoder.Stats()
			bytes += int64(stats.TableBytes + stats.PlanBytes)
		}
	}
	return bytes
}

// forType returns the sharer of a type, nil if it cannot share.
func (s *Sharer[T]) forType(typ reflect.Type) *typeSharer[T] {
	s.mu.Lock()
	defer s.mu.Unlock()
	of, known := s.types[typ]
	if !known {
		of = s.newType(typ)
		if s.types == nil {
			s.types = map[reflect.Type]*typeSharer[T]{}
		}
		s.types[typ] = of
	}
	return of
}

func (s *Sharer[T]) newType(typ reflect.Type) *typeSharer[T] {
	codec, err := newEncoder[T](typ)
	if err != nil || !codec.envelope && formOf(typ) != unstructuredForm {
		return nil
	}
	decoder, err := codec.newDecoder(wire.Options{MaxTableBytes: s.MaxSharedBytes, OnStrayWrite: s.OnStrayWrite})
	if err != nil {
		return nil
	}
	return &typeSharer[T]{codec, decoder}
}

// share encodes obj into buf, and decodes it.
func (of *typeSharer[T]) share(buf []byte, obj, previous T) (shared T, used []byte, err error) {
	buf, err = of.codec.Append(buf, obj)
	if err != nil {
		return shared, buf, err
	}
	kind, body, err := of.codec.open(buf)
	if err != nil {
		return shared, buf, err
	}
	if shared, err = of.decoder.Decode(body, previous); err == nil {
		setTypeMeta(shared, kind)
	}
	return shared, buf, err
}

// shareWithEmpty is share for a struct with lists and maps that are empty but not nil, which an
// encoding does not tell apart. Transforms leave such maps behind when they delete the last
// annotation. It only handles those in the struct itself, which the result does not share.
func (of *typeSharer[T]) shareWithEmpty(buf []byte, obj, previous T) (shared T, err error) {
	without := reflect.New(of.codec.typ)
	without.Elem().Set(reflect.ValueOf(obj).Elem())
	empty := clearEmpty(nil, nil, without.Elem())
	if empty == nil {
		return shared, ErrLossy
	}
	if shared, _, err = of.share(buf, without.Interface().(T), previous); err != nil {
		return shared, err
	}
	for _, index := range empty {
		switch field := reflect.ValueOf(shared).Elem().FieldByIndex(index); field.Kind() {
		case reflect.Map:
			field.Set(reflect.MakeMap(field.Type()))
		default:
			field.Set(reflect.MakeSlice(field.Type(), 0, 0))
		}
	}
	return shared, nil
}

// clearEmpty sets the empty lists and maps of a struct, and of structs in it, to nil. It appends
// their indexes to empty; v is the field at index path of the whole.
func clearEmpty(empty [][]int, path []int, v reflect.Value) [][]int {
	for i := range v.NumField() {
		index := append(path[:len(path):len(path)], i)
		switch field := v.Field(i); field.Kind() {
		case reflect.Struct:
			empty = clearEmpty(empty, index, field)
		case reflect.Map, reflect.Slice:
			if field.Len() == 0 && !field.IsNil() && field.CanSet() {
				field.SetZero()
				empty = append(empty, index)
			}
		}
	}
	return empty
}
