package clientgo

import (
	"fmt"
	"reflect"
	"runtime"
	"sync"
	"unsafe"
	"weak"

	"github.com/tidings/tidings"
	"github.com/tidings/tidings/object"
)

// conversion makes what an informer shows from the objects that are held. A nil one shows these themselves.
type conversion struct {
	convert func(tidings.Object) (tidings.Object, error)

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

// of returns what is shown of an object, or nil for nil.
func (c *conversion) of(held tidings.Object) (tidings.Object, error) {
	if c == nil || object.IsNil(held) {
		return held, nil
	}
	if obj, ok := c.find(held); ok {
		return obj, nil
	}
	obj, err := c.convert(held)
	if err != nil {
		return nil, fmt.Errorf("%s: convert a %T: %w", object.KeyOf(held), held, err)
	}
	return c.keep(held, obj), nil
}

// mustOf is of for callbacks of the engine, which recovers from a panic and reports it.
func (c *conversion) mustOf(held tidings.Object) tidings.Object {
	obj, err := c.of(held)
	if err != nil {
		panic(err)
	}
	return obj
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
