package codec

import (
	"reflect"
	"sync"

	"github.com/tidings/tidings/internal/wire"
	"github.com/tidings/tidings/internal/wire/intern"
	"github.com/tidings/tidings/object"
)

// Sharer lets objects share equal parts that do not come from a decoder which did that: objects
// that a transform returned, or that a client decoded. It copies structs part by part, and
// encodes and decodes unstructured objects.
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
	intern *intern.Interner // of structs; nil for unstructured objects

	codec   *Objects[T]
	decoder wire.Decoder[T]
}

// Share returns a copy of obj that shares equal parts with objects that it returned earlier, and
// with previous, an earlier version of it or the zero T. It keeps no reference to obj, except for
// parts that cannot be copied: interfaces, and types that have unexported fields or decode
// themselves. It returns obj itself if its own type is such a type, or if it is unstructured and
// cannot be encoded.
func (s *Sharer[T]) Share(obj, previous T) T { return s.share(obj, previous, false) }

// ShareOwned is Share for an object of which nobody else has any part. The result may be obj itself.
func (s *Sharer[T]) ShareOwned(obj, previous T) T { return s.share(obj, previous, true) }

func (s *Sharer[T]) share(obj, previous T, owned bool) T {
	of := s.forType(reflect.TypeOf(obj))
	if of == nil {
		return obj
	}
	if of.intern != nil {
		return s.interned(of.intern, obj, previous, owned)
	}
	s.sharing.Lock()
	defer s.sharing.Unlock()
	if cap(s.buf) > maxSharerBuffer {
		s.buf = nil
	}
	shared, buf, err := of.share(s.buf[:0], obj, previous)
	s.buf = buf
	if err != nil {
		return obj
	}
	return shared
}

// interned returns a copy of a struct that shares parts or, if nobody else has it, the struct itself.
func (s *Sharer[T]) interned(by *intern.Interner, obj, previous T, owned bool) T {
	if object.IsNil(obj) {
		return obj
	}
	s.sharing.Lock()
	shared := obj
	if owned {
		by.Share(reflect.ValueOf(obj), reflect.ValueOf(previous))
	} else {
		shared = by.Copy(reflect.ValueOf(obj), reflect.ValueOf(previous)).Interface().(T)
	}
	stray := by.TakeStray()
	s.sharing.Unlock()
	if s.OnStrayWrite != nil {
		for _, field := range stray {
			s.OnStrayWrite(field)
		}
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
		if of != nil && of.decoder != nil {
			of.decoder.Recheck()
		}
	}
}

// SharedBytes returns the memory, in bytes, that the sharer uses for shared parts and for its plans of types.
func (s *Sharer[T]) SharedBytes() (bytes int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, of := range s.types {
		switch {
		case of == nil:
		case of.intern != nil:
			s.sharing.Lock()
			bytes += int64(of.intern.Stats().TableBytes)
			s.sharing.Unlock()
		default:
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
	if typ != unstructuredType {
		if typ == nil || typ.Kind() != reflect.Pointer || !intern.CanShare(typ.Elem()) {
			return nil
		}
		return &typeSharer[T]{intern: intern.New(s.MaxSharedBytes)}
	}
	codec, err := newEncoder[T](typ)
	if err != nil {
		return nil
	}
	decoder, err := codec.newDecoder(wire.Options{MaxTableBytes: s.MaxSharedBytes, OnStrayWrite: s.OnStrayWrite})
	if err != nil {
		return nil
	}
	return &typeSharer[T]{codec: codec, decoder: decoder}
}

// share encodes obj into buf, and decodes it.
func (of *typeSharer[T]) share(buf []byte, obj, previous T) (shared T, used []byte, err error) {
	buf, err = of.codec.Append(buf, obj)
	if err != nil {
		return shared, buf, err
	}
	shared, err = of.decoder.Decode(buf, previous)
	return shared, buf, err
}
