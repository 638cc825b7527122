package recording

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"

	"github.com/tidings/tidings/internal/redact"
	"github.com/tidings/tidings/object"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	kjson "sigs.k8s.io/json"
)

// encode returns an object as JSON, without the values of Secrets. It does not modify the object.
func encode[T object.Object](resource schema.GroupResource, obj T) (data json.RawMessage, err error) {
	defer func() {
		if r := recover(); r != nil { // a method of the user's type may panic
			err = fmt.Errorf("encode %T: panic: %v", obj, r)
		}
	}()
	tree, err := treeOf(obj)
	if err != nil {
		return nil, err
	}
	clean := redact.Object(resource, tree)
	if redact.IsSecret(resource) {
		clean = decodable(clean)
	}
	return json.Marshal(clean)
}

func treeOf(obj any) (tree map[string]any, err error) {
	if u, ok := obj.(*unstructured.Unstructured); ok {
		return u.Object, nil
	}
	data, err := json.Marshal(obj)
	if err != nil {
		return nil, err
	}
	return tree, utiljson.Unmarshal(data, &tree)
}

// decodable base64-encodes the placeholders for a Secret's values, so that typed Secrets can be decoded.
func decodable(secret map[string]any) map[string]any {
	data, ok := secret["data"].(map[string]any)
	if !ok {
		return secret
	}
	encoded := make(map[string]any, len(data))
	for name, v := range data {
		encoded[name] = base64.StdEncoding.EncodeToString([]byte(fmt.Sprint(v)))
	}
	secret = maps.Clone(secret)
	secret["data"] = encoded
	return secret
}

// decode decodes an object. An unstructured one without a kind gets the given one.
func decode[T object.Object](data json.RawMessage, kind schema.GroupVersionKind) (obj T, err error) {
	t := reflect.TypeFor[T]()
	if t.Kind() != reflect.Pointer {
		return obj, fmt.Errorf("cannot decode into %v; want a pointer", t)
	}
	obj = reflect.New(t.Elem()).Interface().(T)
	if u, ok := any(obj).(*unstructured.Unstructured); ok {
		if err := utiljson.Unmarshal(data, &u.Object); err != nil {
			return obj, err
		}
		if u.Object == nil {
			return obj, fmt.Errorf("an object is missing")
		}
		if u.GetKind() == "" {
			u.SetGroupVersionKind(kind)
		}
	} else if err := kjson.UnmarshalCaseSensitivePreserveInts(data, obj); err != nil {
		return obj, err
	}
	if obj.GetName() == "" {
		return obj, fmt.Errorf("an object without a name")
	}
	return obj, nil
}
