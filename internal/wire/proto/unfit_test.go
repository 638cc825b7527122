package proto

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/tidings/tidings/internal/wire"
)

// unfit is a message with a field that protobuf cannot encode.
type unfit struct {
	Name string     `protobuf:"bytes,1,opt,name=name"`
	Odd  complex128 `protobuf:"bytes,2,opt,name=odd"`
}

func (u *unfit) Unmarshal(data []byte) error {
	u.Name = "by its method, " + string(data)
	return nil
}

// partly is a message with a field that is not encoded.
type partly struct {
	Name string     `protobuf:"bytes,1,opt,name=name"`
	Odd  complex128 `json:"-"`
}

func (*partly) Unmarshal([]byte) error { return errors.New("not called") }

// grumpy is also unfit, and its method panics.
type grumpy struct {
	Odd complex128 `protobuf:"bytes,1,opt,name=odd"`
}

func (*grumpy) Unmarshal([]byte) error { panic("not today") }

// TestUnfitMessages decodes a message with fields of unknown form by its own method.
func TestUnfitMessages(t *testing.T) {
	d, err := New[*unfit](wire.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if u, err := d.Decode([]byte("\x0a\x01a"), nil); err != nil || u.Name != "by its method, \x0a\x01a" {
		t.Errorf("%+v, %v", u, err)
	}
	g, err := New[*grumpy](wire.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if o, err := g.Decode([]byte{1}, nil); o != nil || err == nil || !strings.Contains(err.Error(), "grumpy: not today") {
		t.Errorf("%v, %v", o, err)
	}
	if err := checkMessage(reflect.TypeFor[partly]()); err != nil {
		t.Error(err)
	}
	if err := checkMessage(reflect.TypeFor[unfit]()); err == nil || !strings.Contains(err.Error(), "unfit.Odd: values of complex128 are not supported") {
		t.Errorf("%v", err)
	}
}
