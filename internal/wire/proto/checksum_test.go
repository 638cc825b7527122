package proto

import (
	"reflect"
	"testing"
	"unsafe"

	"k8s.io/apimachinery/pkg/api/resource"
)

// memories has writable memory in all the ways in which a value can have it.
type memories struct {
	Number   int64
	One, Two *int64
	Array    [2]*int64
	List     []int64
	Lists    [][]int64
	Pointers []*int64
	Texts    map[string]string
	Amounts  map[string]resource.Quantity
	Values   map[string][]int64
	Byte     []byte
	Inner    struct{ A, B *memories }
}

// TestSumsSeeEveryWrite compares the checksums of a value before and after each possible write to it.
func TestSumsSeeEveryWrite(t *testing.T) {
	number := func() *int64 { return new(int64(7)) }
	value := func() *memories {
		m := &memories{
			One: number(), Two: number(), Array: [2]*int64{number(), number()}, List: []int64{1, 2, 3}, Lists: [][]int64{{1}, {2, 3}}, Pointers: []*int64{number(), nil, number()},
			Texts: map[string]string{"a": "b"}, Amounts: map[string]resource.Quantity{"cpu": resource.MustParse("1")},
			Values: map[string][]int64{"a": {1, 2}}, Byte: []byte("a text of more than forty-eight bytes, which are summed at once"),
		}
		m.Inner.B = &memories{One: number(), Array: [2]*int64{nil, number()}}
		return m
	}
	for i, write := range []func(*memories){
		func(m *memories) { m.Number++ }, func(m *memories) { *m.One++ }, func(m *memories) { *m.Two++ }, func(m *memories) { m.One, m.Two = m.Two, m.One },
		func(m *memories) { *m.Array[0]++ }, func(m *memories) { *m.Array[1]++ }, func(m *memories) { m.List[0]++ }, func(m *memories) { m.List[2]++ },
		func(m *memories) { m.List = m.List[:2] }, func(m *memories) { m.Lists[0][0]++ }, func(m *memories) { m.Lists[1][1]++ }, func(m *memories) { *m.Pointers[0]++ },
		func(m *memories) { *m.Pointers[2]++ }, func(m *memories) { m.Texts["a"] = "c" }, func(m *memories) { m.Texts["c"] = "b" }, func(m *memories) { delete(m.Texts, "a") },
		func(m *memories) { m.Amounts["cpu"] = resource.MustParse("2") }, func(m *memories) { m.Amounts["x"] = resource.MustParse("1") },
		func(m *memories) { m.Values["a"][1]++ }, func(m *memories) { m.Byte[0]++ }, func(m *memories) { m.Byte[60]++ },
		func(m *memories) { *m.Inner.B.One++ }, func(m *memories) { *m.Inner.B.Array[1]++ }, func(m *memories) { m.Inner.A = &memories{} }, func(m *memories) { m.Inner.B = nil },
		func(m *memories) { m.Texts = nil }, func(m *memories) { m.Inner.B.Inner.B = m },
	} {
		s, l, m := newChecksummer(), layouts{}.of(reflect.TypeFor[memories]()), value()
		sum := func() uint64 { return s.sum(l, unsafe.Pointer(m), 1, 1000) }
		before := sum()
		if sum() != before {
			t.Fatalf("%d: the sum changes by itself", i)
		}
		if write(m); sum() == before {
			t.Errorf("%d: the sum has not changed", i)
		}
	}
}

// TestSumsStopAtTheEnd: memory beyond the end of a slice, even an empty one, is not part of the value.
func TestSumsStopAtTheEnd(t *testing.T) {
	behind := make([]int64, 100)
	m := &memories{List: behind[2:2], Lists: [][]int64{behind[:2], behind[2:2:2], {}}}
	s, l := newChecksummer(), layouts{}.of(reflect.TypeFor[memories]())
	before := s.sum(l, unsafe.Pointer(m), 1, 1000)
	for i := 2; i < len(behind); i++ {
		behind[i]++
	}
	if s.sum(l, unsafe.Pointer(m), 1, 1000) != before {
		t.Error("the sum has changed")
	}
	if behind[0]++; s.sum(l, unsafe.Pointer(m), 1, 1000) == before {
		t.Error("the sum has not changed")
	}
}
