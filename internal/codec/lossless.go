package codec

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// losslessCheck reports whether a value survives encoding in protobuf without loss. A nil one is always true.
//
// Protobuf loses the difference between an empty and a nil list or map, fractions of a second,
// quantities out of bounds, and fields without a field number, such as the kinds of objects nested
// in the object. Checking for these costs a tenth of decoding the object again and comparing.
type losslessCheck func(v reflect.Value) bool

// losslessChecks returns checks for types. It caches those of structs, which may be recursive; nil
// if nothing can get lost.
type losslessChecks map[reflect.Type]*losslessCheck

func (ks losslessChecks) forType(t reflect.Type) losslessCheck {
	switch t {
	case reflect.TypeFor[metav1.Time]():
		return func(v reflect.Value) bool { return v.Addr().Interface().(*metav1.Time).Nanosecond() == 0 }
	case reflect.TypeFor[metav1.MicroTime]():
		return func(v reflect.Value) bool { return v.Addr().Interface().(*metav1.MicroTime).Nanosecond()%1000 == 0 }
	case reflect.TypeFor[resource.Quantity]():
		return func(v reflect.Value) bool { return survivesText(v.Addr().Interface().(*resource.Quantity)) }
	case reflect.TypeFor[metav1.TypeMeta]():
		return nil
	}
	switch t.Kind() {
	case reflect.Struct:
		return ks.forStruct(t)
	case reflect.Pointer:
		return ks.forPointer(t)
	case reflect.Slice:
		return ks.forSlice(t)
	case reflect.Map:
		return ks.forMap(t)
	case reflect.Interface, reflect.Func, reflect.Chan, reflect.Complex64, reflect.Complex128:
		return reflect.Value.IsZero
	default:
		return nil
	}
}

// survivesText reports whether a quantity can be parsed from its text. Computed ones can be too
// large for that, or too precise.
func survivesText(q *resource.Quantity) bool {
	if _, small := q.AsInt64(); small {
		return true
	}
	_, exact := q.AsScale(resource.Nano)
	return exact && q.CmpInt64(math.MaxInt64) <= 0 && q.CmpInt64(-math.MaxInt64) >= 0
}

func (ks losslessChecks) forStruct(t reflect.Type) losslessCheck {
	if known, ok := ks[t]; ok && known == nil {
		return nil
	} else if ok {
		return func(v reflect.Value) bool { return *known == nil || (*known)(v) }
	}
	root := len(ks) == 0 // the root's kind is stored next to its encoding
	made := new(losslessCheck)
	ks[t] = made
	type check struct {
		field int
		losslessCheck
	}
	var checks []check
	for i := range t.NumField() {
		field := t.Field(i)
		lossless := ks.forType(field.Type)
		if tag := field.Tag.Get("protobuf"); (tag == "" || tag == "-") && (!root || field.Type != reflect.TypeFor[metav1.TypeMeta]()) {
			lossless = reflect.Value.IsZero
		}
		if lossless != nil {
			checks = append(checks, check{i, lossless})
		}
	}
	if checks == nil {
		ks[t] = nil
		return nil
	}
	*made = func(v reflect.Value) bool {
		for i := range checks {
			if !checks[i].losslessCheck(v.Field(checks[i].field)) {
				return false
			}
		}
		return true
	}
	return *made
}

func (ks losslessChecks) forPointer(t reflect.Type) losslessCheck {
	lossless := ks.forType(t.Elem())
	if lossless == nil {
		return nil
	}
	return func(v reflect.Value) bool { return v.IsNil() || lossless(v.Elem()) }
}

func (ks losslessChecks) forSlice(t reflect.Type) losslessCheck {
	if t.Elem().Kind() == reflect.Uint8 {
		return nil
	}
	if reflect.PointerTo(t).Implements(reflect.TypeFor[message]()) { // a list of strings; decoding creates it even if it is empty
		return func(v reflect.Value) bool { return !v.IsNil() }
	}
	lossless, pointers := ks.forType(t.Elem()), t.Elem().Kind() == reflect.Pointer
	return func(v reflect.Value) bool {
		n := v.Len()
		if n == 0 {
			return v.IsNil()
		}
		for i := range n {
			if lossless == nil && !pointers {
				return true
			}
			if e := v.Index(i); pointers && e.IsNil() || lossless != nil && !lossless(e) {
				return false
			}
		}
		return true
	}
}

func (ks losslessChecks) forMap(t reflect.Type) losslessCheck {
	lossless, elem := ks.forType(t.Elem()), t.Elem()
	canBeNil := elem.Kind() == reflect.Slice || elem.Kind() == reflect.Pointer
	return func(v reflect.Value) bool {
		if v.Len() == 0 {
			return v.IsNil()
		}
		if lossless == nil && !canBeNil {
			return true
		}
		e := reflect.New(elem).Elem() // the checks need an addressable value
		for entries := v.MapRange(); entries.Next(); {
			e.SetIterValue(entries)
			if canBeNil && e.IsNil() || lossless != nil && !lossless(e) {
				return false
			}
		}
		return true
	}
}

// equalWithNil reports whether two objects are semantically equal, except that nil and empty differ.
func equalWithNil(a, b any) (equal bool) {
	defer func() {
		if recover() != nil { // the comparison panics on unexported fields
			equal = reflect.DeepEqual(a, b)
		}
	}()
	return apiequality.Semantic.DeepEqualWithNilDifferentFromEmpty(a, b)
}

// maxJSONDepth limits the nesting of encoded content, so that content which contains itself is an error.
const maxJSONDepth = 1000

var errTooDeep = errors.New("its content is nested too deeply")

// appendJSON appends the JSON text of unstructured content. It supports only the types that
// decoding produces. Names are sorted, and floating-point numbers keep a decimal point or exponent,
// so that they are not decoded as integers.
func appendJSON(dst []byte, value any, depth int) ([]byte, error) {
	if depth > maxJSONDepth {
		return nil, errTooDeep
	}
	switch v := value.(type) {
	case string:
		return appendString(dst, v)
	case map[string]any:
		return appendObject(dst, v, depth)
	case []any:
		return appendArray(dst, v, depth)
	case int64:
		return strconv.AppendInt(dst, v, 10), nil
	case bool:
		return strconv.AppendBool(dst, v), nil
	case float64:
		return appendFloat(dst, v)
	case nil:
		return append(dst, "null"...), nil
	default:
		return nil, fmt.Errorf("%w: a %T would not be restored from JSON", ErrLossy, value)
	}
}

func appendString(dst []byte, s string) ([]byte, error) {
	if !utf8.ValidString(s) {
		return nil, fmt.Errorf("%w: a string is not UTF-8", ErrLossy)
	}
	return jsontext.AppendQuote(dst, s)
}

func appendFloat(dst []byte, f float64) ([]byte, error) {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return nil, fmt.Errorf("%w: there is no %v in JSON", ErrLossy, f)
	}
	from := len(dst)
	dst = strconv.AppendFloat(dst, f, 'g', -1, 64)
	if !slices.ContainsFunc(dst[from:], func(c byte) bool { return c == '.' || c == 'e' }) {
		dst = append(dst, ".0"...)
	}
	return dst, nil
}

func appendObject(dst []byte, object map[string]any, depth int) ([]byte, error) {
	if object == nil {
		return nil, fmt.Errorf("%w: it has a nil map", ErrLossy)
	}
	names := slices.AppendSeq(make([]string, 0, 16), maps.Keys(object))
	slices.Sort(names)
	dst = append(dst, '{')
	var err error
	for i, name := range names {
		if i > 0 {
			dst = append(dst, ',')
		}
		if dst, err = appendString(dst, name); err != nil {
			return nil, err
		}
		if dst, err = appendJSON(append(dst, ':'), object[name], depth+1); err != nil {
			return nil, err
		}
	}
	return append(dst, '}'), nil
}

func appendArray(dst []byte, array []any, depth int) ([]byte, error) {
	if array == nil {
		return nil, fmt.Errorf("%w: it has a nil list", ErrLossy)
	}
	dst = append(dst, '[')
	var err error
	for i, value := range array {
		if i > 0 {
			dst = append(dst, ',')
		}
		if dst, err = appendJSON(dst, value, depth+1); err != nil {
			return nil, err
		}
	}
	return append(dst, ']'), nil
}
