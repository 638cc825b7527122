package proto

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// unmarshaler is the method that the generated code gives every message.
type unmarshaler interface{ Unmarshal([]byte) error }

var (
	unmarshalerType = reflect.TypeFor[unmarshaler]()
	timeType        = reflect.TypeFor[metav1.Time]()
	microTimeType   = reflect.TypeFor[metav1.MicroTime]()
	quantityType    = reflect.TypeFor[resource.Quantity]()
	typeMetaType    = reflect.TypeFor[metav1.TypeMeta]()
	objectMetaType  = reflect.TypeFor[metav1.ObjectMeta]()
)

// checkMessage returns why typ cannot be compiled; such a type is decoded by its own Unmarshal.
func checkMessage(typ reflect.Type) error {
	switch {
	case typ.Kind() != reflect.Struct:
		return fmt.Errorf("%s is not a struct", typ)
	case !reflect.PointerTo(typ).Implements(unmarshalerType):
		return fmt.Errorf("%s has no Unmarshal method: it is not a protobuf message", typ)
	case typ.NumField() > maxFields:
		return fmt.Errorf("%s has more than %d fields", typ, maxFields)
	}
	for sf := range typ.Fields() {
		num, err := fieldNumber(sf)
		if err == nil && num != 0 {
			_, _, err = formOf(sf.Type)
		}
		if err != nil {
			return fmt.Errorf("%s.%s: %w", typ, sf.Name, err)
		}
	}
	return nil
}

// fieldNumber reads the protobuf tag of a struct field. The number is 0 if the field is not encoded.
func fieldNumber(sf reflect.StructField) (int32, error) {
	tag, ok := sf.Tag.Lookup("protobuf")
	if !ok {
		if sf.Type == typeMetaType || sf.Tag.Get("json") == "-" && sf.IsExported() {
			return 0, nil
		}
		return 0, fmt.Errorf("has no protobuf tag")
	}
	if tag == "-" {
		return 0, nil
	}
	parts := strings.Split(tag, ",")
	if len(parts) < 2 {
		return 0, fmt.Errorf("protobuf tag %q: want a type and a number", tag)
	}
	// Plans are tables by number, so that it must not be large.
	n, err := strconv.Atoi(parts[1])
	if err != nil || n < 1 || n > 1000 {
		return 0, fmt.Errorf("protobuf tag %q: want a number from 1 to 1000", tag)
	}
	return int32(n), nil
}

// jsonName returns the JSON name of a field, and whether it is inlined into its parent.
func jsonName(sf reflect.StructField) (name string, inline bool) {
	name, opts, _ := strings.Cut(sf.Tag.Get("json"), ",")
	if name == "" && (opts == "inline" || sf.Anonymous) {
		return "", true
	}
	if name == "" || name == "-" {
		name = strings.ToLower(sf.Name[:1]) + sf.Name[1:]
	}
	return name, false
}

// formOf returns how a field of type t holds its values, and the type of one value.
func formOf(t reflect.Type) (form form, elem reflect.Type, err error) {
	form, elem = single, t
	switch {
	case isMessage(t): // a slice type that is a message counts as one value
	case t.Kind() == reflect.Pointer:
		form, elem = pointer, t.Elem()
	case t.Kind() == reflect.Slice && t.Elem().Kind() != reflect.Uint8:
		form, elem = list, t.Elem()
	case t.Kind() == reflect.Map:
		if t.Key().Kind() != reflect.String {
			return 0, nil, fmt.Errorf("maps from %s are not supported", t.Key())
		}
		form, elem = mapping, t.Elem()
	}
	if isMessage(elem) {
		return form, elem, nil
	}
	k, ok := scalarKind(elem)
	if !ok {
		return 0, nil, fmt.Errorf("values of %s are not supported", elem)
	}
	if form == mapping && k != stringKind && k != bytesKind || form != single && form != mapping && k == bytesKind {
		return 0, nil, fmt.Errorf("%s is not supported", t)
	}
	return form, elem, nil
}

// isMessage reports whether t is a message: a named struct or slice. Other types are not even checked, because creating a
// pointer type that the program does not have leaks memory.
func isMessage(t reflect.Type) bool {
	return (t.Kind() == reflect.Struct || t.Kind() == reflect.Slice) && t.Name() != "" && reflect.PointerTo(t).Implements(unmarshalerType)
}

func kindOf(t reflect.Type) kind {
	switch {
	case t == timeType:
		return timeKind
	case t == microTimeType:
		return microTimeKind
	case t == quantityType:
		return quantityKind
	case !isMessage(t):
		k, _ := scalarKind(t)
		return k
	case isItems(t) || checkMessage(t) == nil:
		return messageKind
	}
	return foreignKind
}

// isItems reports whether t is a list of strings that is a message itself.
func isItems(t reflect.Type) bool {
	return t.Kind() == reflect.Slice && t.Elem() == reflect.TypeFor[string]()
}

// scalarKind returns the kind of a type that is not a message.
func scalarKind(t reflect.Type) (kind, bool) {
	switch t.Kind() {
	case reflect.String:
		return stringKind, true
	case reflect.Bool:
		return boolKind, true
	case reflect.Int32, reflect.Uint32:
		return int32Kind, true
	case reflect.Int64, reflect.Uint64:
		return int64Kind, true
	case reflect.Slice:
		return bytesKind, t.Elem().Kind() == reflect.Uint8
	}
	return 0, false
}

// isTimeShaped reports whether t is a struct around a single time.Time, at any depth.
func isTimeShaped(t reflect.Type) bool {
	for t.Kind() == reflect.Struct && t.NumField() == 1 {
		t = t.Field(0).Type
	}
	return t == reflect.TypeFor[time.Time]()
}
