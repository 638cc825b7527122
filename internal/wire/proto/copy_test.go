package proto

import (
	"reflect"
	"testing"
)

// An any holds a value of the size of a pointer itself, and refers to others.
func TestCloneValue(t *testing.T) {
	type one struct{ p *int }
	type two struct {
		text string
		p    *int
	}
	number := 7
	for _, value := range []any{
		number, int8(3), "text", &number, map[string]int{"a": 1}, []string{"b"}, one{&number}, two{"text", &number}, struct{ one }{one{&number}},
		[1]one{{&number}}, [1]*int{&number}, [2]one{{&number}, {}}, [3]two{{"text", nil}, {}, {"more", &number}}, [0]two{}, struct{}{},
	} {
		from := reflect.New(reflect.TypeOf(value))
		from.Elem().Set(reflect.ValueOf(value))
		typed := nilPointer(from.Type().Elem())
		copied := cloneValue(typed, from.UnsafePointer())
		if copied == nil || from.Type().Elem().Size() > 0 && copied == from.UnsafePointer() {
			t.Errorf("the copy of %#v is at %p, and the value itself at %p", value, copied, from.UnsafePointer())
			continue
		}
		from.Elem().SetZero()
		if got := valueAt(typed, copied).Interface(); !reflect.DeepEqual(got, value) {
			t.Errorf("the copy of %#v is %#v, after the value was changed", value, got)
		}
		valueAt(typed, copied).SetZero() // memory that nobody else has
	}
}
