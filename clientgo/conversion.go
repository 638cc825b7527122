package clientgo

import (
	"errors"
	"fmt"
	"reflect"
	"runtime"
	"runtime/debug"
	"sync"
	"unsafe"
	"weak"

	"github.com/tidings/tidings"
	"github.com/tidings/tidings/object"
)

// conversion makes what an informer shows from the objects that are held. A nil one shows these themselves.
type conversion struct {
	convert func(tidings.Object) (tidings.Object, error)
	guard   *viewGuard

	mu sync.Mutex
	// made finds what was made from an object and is in use. Its entries are dropped after the garbage collector has
	// found an object of no more use; until then they keep the object that is held.
	made map[tidings.Object]made
}

// made is a weak pointer to an object of any type.
type made struct {
	object weak.Pointer[byte]
	typ    reflect.Type // of the object, without the pointer
}

// newConversion returns a conversion, which is nil if convert is.
func newConversion(convert func(tidings.Object) (tidings.Object, error)) *conversion {
	if convert == nil {
		return nil
	}
	return &conversion{convert: convert}
}

// of returns what is shown of an object: nil for nil, and for one that the conversion leaves out.
func (c *conversion) of(held tidings.Object) (tidings.Object, error) {
	if c == nil || object.IsNil(held) {
		return held, nil
	}
	if obj, ok := c.find(held); ok {
		return obj, nil
	}
	obj, err := c.call(held)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s: convert a %T: %w", object.KeyOf(held), held, err)
	case obj == nil || isPartOf(obj, held): // the entry of a part of held would keep itself
		return obj, nil
	}
	c.guard.made(obj)
	return c.keep(held, obj), nil
}

var (
	errNoPointer  = errors.New("it returned an object that is not a pointer")
	errAnotherKey = errors.New("it returned an object with another namespace or name")
)

// call calls the user's function. What it returns is nil or a pointer, never a nil pointer.
func (c *conversion) call(held tidings.Object) (obj tidings.Object, err error) {
	defer func() {
		if reason := recover(); reason != nil {
			obj, err = nil, fmt.Errorf("it panicked: %v\n\n%s", reason, debug.Stack())
		}
	}()
	obj, err = c.convert(held)
	switch {
	case err != nil || object.IsNil(obj):
		return nil, err
	case reflect.TypeOf(obj).Kind() != reflect.Pointer:
		return nil, errNoPointer
	case object.KeyOf(obj) != object.KeyOf(held):
		return nil, errAnotherKey
	}
	return obj, nil
}

// isPartOf reports whether obj is held, or lies in its memory.
func isPartOf(obj, held tidings.Object) bool {
	whole := reflect.ValueOf(held)
	if whole.Kind() != reflect.Pointer {
		return false
	}
	start, at := whole.Pointer(), reflect.ValueOf(obj).Pointer()
	return at == start || at > start && at-start < whole.Type().Elem().Size()
}

// find returns what was made from an object, if somebody holds it.
func (c *conversion) find(held tidings.Object) (tidings.Object, bool) {
	c.mu.Lock()
	m, ok := c.made[held]
	c.mu.Unlock()
	if !ok {
		return nil, false
	}
	return m.get()
}

// forget makes the next reader of an object get a new one.
func (c *conversion) forget(held tidings.Object) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.made, held)
}

// keep registers what was made from an object. If somebody has been faster, it returns his.
func (c *conversion) keep(held, obj tidings.Object) tidings.Object {
	v := reflect.ValueOf(obj)
	p := (*byte)(v.UnsafePointer())
	c.mu.Lock()
	defer c.mu.Unlock()
	if other, ok := c.made[held].get(); ok {
		return other
	}
	if c.made == nil {
		c.made = map[tidings.Object]made{}
	}
	c.made[held] = made{weak.Make(p), v.Type().Elem()}
	runtime.AddCleanup(p, c.drop, held)
	return obj
}

// drop removes an entry, unless there is a new one.
func (c *conversion) drop(held tidings.Object) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.made[held].get(); !ok {
		delete(c.made, held)
	}
	if len(c.made) == 0 {
		c.made = nil // a map does not shrink by itself
	}
}

func (m made) get() (tidings.Object, bool) {
	p := m.object.Value()
	if p == nil {
		return nil, false
	}
	return reflect.NewAt(m.typ, unsafe.Pointer(p)).Interface().(tidings.Object), true
}
