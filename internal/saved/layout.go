package saved

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"reflect"
)

// typeName returns the name of a type with its package path.
func typeName(t reflect.Type) string {
	if t.Kind() == reflect.Pointer {
		return "*" + typeName(t.Elem())
	}
	return t.PkgPath() + "." + t.Name()
}

// layout returns a hash of everything that decides how objects of a type are encoded: the names,
// types and tags of all fields, recursively.
func layout(t reflect.Type) string {
	hash := sha256.New()
	describeType(hash, t, map[reflect.Type]bool{})
	return hex.EncodeToString(hash.Sum(nil)[:16])
}

// describeType writes the structure of t, once for each type.
func describeType(out io.Writer, t reflect.Type, seen map[reflect.Type]bool) {
	fmt.Fprintf(out, "%s %q\n", t.Kind(), t)
	if seen[t] {
		return
	}
	seen[t] = true
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Array:
		describeType(out, t.Elem(), seen)
	case reflect.Map:
		describeType(out, t.Key(), seen)
		describeType(out, t.Elem(), seen)
	case reflect.Struct:
		for i := range t.NumField() {
			field := t.Field(i)
			fmt.Fprintf(out, "%q %q %t\n", field.Name, field.Tag, field.Anonymous)
			describeType(out, field.Type, seen)
		}
	}
}
