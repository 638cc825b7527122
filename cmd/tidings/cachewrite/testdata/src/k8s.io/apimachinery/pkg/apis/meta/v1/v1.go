// Package v1 has the shape of the real one.
package v1

type Object interface {
	GetResourceVersion() string
	GetLabels() map[string]string
	SetLabels(map[string]string)
	SetAnnotations(map[string]string)
}

type Condition struct{ Type, Status string }

type OwnerReference struct{ Name string }

type TypeMeta struct{ Kind string }

type ObjectMeta struct {
	Name, ResourceVersion string
	Labels, Annotations   map[string]string
	Finalizers            []string
	OwnerReferences       []OwnerReference
}

func (o *ObjectMeta) GetResourceVersion() string         { return o.ResourceVersion }
func (o *ObjectMeta) GetLabels() map[string]string       { return o.Labels }
func (o *ObjectMeta) SetLabels(l map[string]string)      { o.Labels = l }
func (o *ObjectMeta) SetAnnotations(a map[string]string) { o.Annotations = a }
func (o *ObjectMeta) SetName(name string)                { o.Name = name }
