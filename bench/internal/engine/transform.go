package engine

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/cache"

	"github.com/tidings/tidings/clientgo"
)

// Transform names a transform of an informer; empty means none.
type Transform string

// The transforms. Each may write to its argument, as client-go allows.
const (
	// StripManagedFields is the usual one.
	StripManagedFields Transform = "managed fields"
	// KeepIdentity removes all but the identity, the labels and the owners.
	KeepIdentity Transform = "identity only"
	// KeepAll returns its argument.
	KeepAll Transform = "nothing"
)

// Transforms are all of them.
var Transforms = []Transform{StripManagedFields, KeepIdentity, KeepAll}

// apply is a cache.TransformFunc.
func (t Transform) apply(obj any) (any, error) {
	o, err := meta.Accessor(obj)
	if err != nil || t == KeepAll {
		return obj, err
	}
	o.SetManagedFields(nil)
	if t == StripManagedFields {
		return obj, nil
	}
	o.SetAnnotations(nil)
	switch o := obj.(type) {
	case *corev1.Pod:
		o.Spec, o.Status = corev1.PodSpec{}, corev1.PodStatus{}
	case *unstructured.Unstructured:
		delete(o.Object, "spec")
		delete(o.Object, "status")
	}
	return obj, nil
}

// throughDynamic returns a maker of Tidings' informers of unstructured objects behind client-go's interfaces.
func throughDynamic(c Config) maker {
	factory := clientgo.NewDynamicSharedInformerFactory(c.rest(), 0)
	return func(string) cache.SharedIndexInformer {
		return factory.ForResource(c.Corpus.Kind().Resource).Informer()
	}
}
