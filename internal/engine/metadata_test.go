package engine

import (
	"context"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tidings/tidings/object"
	"github.com/tidings/tidings/source"
)

// sayingWho is a source that lists metadata.
type sayingWho struct{ answering }

func (sayingWho) ListMetadata(
	_ context.Context, opts source.ListOptions[*metav1.PartialObjectMetadata],
	each func(*metav1.PartialObjectMetadata) error,
) (source.ListResult, error) {
	opts.Skip(&source.ObjectError{Key: object.Key{Name: "broken"}})
	identity := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: "metadata"}}
	return source.ListResult{ResourceVersion: opts.ResourceVersion, Continue: opts.Continue}, each(identity)
}

// TestListMetadata uses what the source offers, and leaves out objects that cannot be decoded.
func TestListMetadata(t *testing.T) {
	plain := source.Funcs[settings]{ListFunc: func(
		_ context.Context, opts source.ListOptions[settings], each func(settings) error,
	) (source.ListResult, error) {
		opts.Skip(&source.ObjectError{Key: object.Key{Name: "broken"}})
		result := source.ListResult{ResourceVersion: opts.ResourceVersion, Continue: opts.Continue}
		return result, each(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "whole"}})
	}}
	for want, src := range map[string]source.ListerWatcher[settings]{"metadata": &sayingWho{}, "whole": plain} {
		var names []string
		opts := source.ListOptions[settings]{ResourceVersion: "7", Continue: "next"}
		result, err := listMetadata(t.Context(), src, opts, func(o metav1.Object) error {
			names = append(names, o.GetName())
			return nil
		})
		passed := result.ResourceVersion == "7" && result.Continue == "next"
		if err != nil || !passed || !slices.Equal(names, []string{want}) {
			t.Errorf("want %s: %v, %+v, %v", want, names, result, err)
		}
	}
}
