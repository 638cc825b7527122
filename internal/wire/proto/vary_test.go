package proto

import (
	"math/rand/v2"
	"reflect"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// vary changes something in the settable value v, such that it can still be encoded.
func vary(rng *rand.Rand, v reflect.Value) {
	switch p := v.Addr().Interface().(type) {
	case *metav1.Time:
		p.Time = somePoint(rng)
		return
	case *metav1.MicroTime:
		p.Time = somePoint(rng)
		return
	case *resource.Quantity:
		*p = resource.MustParse([]string{"0", "1", "100m", "2Gi", "1e3"}[rng.IntN(5)])
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		varyStruct(rng, v)
	case reflect.Pointer:
		varyPointer(rng, v)
	case reflect.Slice:
		varySlice(rng, v)
	case reflect.Map:
		varyMap(rng, v)
	case reflect.String:
		v.SetString([]string{"", "a", "b", "Ready", "something that is not there otherwise"}[rng.IntN(5)])
	case reflect.Bool:
		v.SetBool(!v.Bool())
	case reflect.Int32, reflect.Int64:
		v.SetInt([]int64{0, 1, -1, 2000}[rng.IntN(4)])
	case reflect.Uint8:
		v.SetUint(rng.Uint64N(256))
	}
}

func somePoint(rng *rand.Rand) time.Time {
	if rng.IntN(3) == 0 {
		return time.Time{}
	}
	return time.Unix(int64(rng.IntN(4)*1e9), 0)
}

func varyStruct(rng *rand.Rand, v reflect.Value) {
	if v.NumField() == 0 {
		return
	}
	if f := v.Field(rng.IntN(v.NumField())); f.CanSet() {
		vary(rng, f)
	}
}

func varyPointer(rng *rand.Rand, v reflect.Value) {
	switch {
	case v.IsNil():
		v.Set(reflect.New(v.Type().Elem()))
	case rng.IntN(4) == 0:
		v.SetZero()
	default:
		vary(rng, v.Elem())
	}
}

func varySlice(rng *rand.Rand, v reflect.Value) {
	n := v.Len()
	switch choice := rng.IntN(10); {
	case choice == 0:
		v.SetZero()
	case choice == 1:
		v.Set(reflect.MakeSlice(v.Type(), 0, 0))
	case choice == 2 || n == 0:
		v.Set(reflect.Append(v, reflect.Zero(v.Type().Elem())))
		vary(rng, v.Index(n))
	case choice == 3:
		v.SetLen(n - 1)
	case choice == 4:
		v.Set(v.Slice(1, n))
	case choice == 5:
		reflect.Swapper(v.Interface())(rng.IntN(n), rng.IntN(n))
	case choice == 6:
		v.Index(rng.IntN(n)).SetZero()
	default:
		vary(rng, v.Index(rng.IntN(n)))
	}
}

func varyMap(rng *rand.Rand, v reflect.Value) {
	keys := v.MapKeys()
	choice := rng.IntN(6)
	if choice == 0 {
		v.SetZero()
		return
	}
	key := reflect.New(v.Type().Key()).Elem()
	vary(rng, key)
	value := reflect.New(v.Type().Elem()).Elem()
	if len(keys) > 0 && choice < 4 {
		slices.SortFunc(keys, func(a, b reflect.Value) int { return len(a.String()) - len(b.String()) })
		key = keys[rng.IntN(len(keys))]
		value.Set(v.MapIndex(key))
	}
	if choice == 1 {
		v.SetMapIndex(key, reflect.Value{})
		return
	}
	if v.IsNil() {
		v.Set(reflect.MakeMap(v.Type()))
	}
	vary(rng, value)
	v.SetMapIndex(key, value)
}
