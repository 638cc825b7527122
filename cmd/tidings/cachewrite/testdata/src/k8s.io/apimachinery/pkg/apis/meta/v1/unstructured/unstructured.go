// Package unstructured has the shape of the real one.
package unstructured

type Unstructured struct{ Object map[string]any }

func (u *Unstructured) GetResourceVersion() string          { return "" }
func (u *Unstructured) GetLabels() map[string]string        { return nil }
func (u *Unstructured) SetLabels(map[string]string)         {}
func (u *Unstructured) SetAnnotations(map[string]string)    {}
func (u *Unstructured) UnstructuredContent() map[string]any { return u.Object }
func (u *Unstructured) DeepCopy() *Unstructured             { return u }

func SetNestedField(obj map[string]any, value any, fields ...string) error { return nil }

func NestedFieldNoCopy(obj map[string]any, fields ...string) (any, bool, error) {
	return nil, false, nil
}

func NestedMap(obj map[string]any, fields ...string) (map[string]any, bool, error) {
	return nil, false, nil
}
