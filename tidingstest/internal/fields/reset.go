package fields

import (
	"fmt"
	"io"
	"strings"

	"github.com/tidings/tidings/tidingstest/internal/api"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
)

// The constructors of field managers take filters of module structured-merge-diff, of which apimachinery has version 6
// or 7. So that this package builds with both, it does not import the module: the compiler finds its types from the
// constructor.

// constructor is a constructor of field managers. V and F are fieldpath.APIVersion and fieldpath.Filter.
type constructor[V ~string, F any] func(
	managedfields.TypeConverter, runtime.ObjectConvertor, runtime.ObjectDefaulter, runtime.ObjectCreater,
	schema.GroupVersionKind, schema.GroupVersion, string, map[V]F,
) (*managedfields.FieldManager, error)

// managerOf calls a constructor with the fields that a write to the resource or subresource cannot change, and which its
// manager therefore does not own.
func managerOf[V ~string, F interface{ Filter(P) P }, P set[S], S any](
	construct constructor[V, F], types managedfields.TypeConverter, creater runtime.ObjectCreater, hub schema.GroupVersion,
	r *api.Resource, subresource string,
) (*managedfields.FieldManager, error) {
	var reset map[V]F
	if fields, others := resetFields(r, subresource); fields != "" {
		chosen := P(new(S))
		if err := chosen.FromJSON(strings.NewReader(fields)); err != nil {
			return nil, fmt.Errorf("fields %s: %w", fields, err)
		}
		reset = map[V]F{V(r.GroupVersion().String()): any(filter[P, S]{chosen, others}).(F)}
	}
	c := converter{r}
	return construct(types, c, c, creater, r.GroupVersionKind(), hub, subresource, reset)
}

// set is a pointer to a fieldpath.Set.
type set[S any] interface {
	*S
	FromJSON(io.Reader) error
	Difference(*S) *S
	RecursiveDifference(*S) *S
}

// filter is a fieldpath.Filter. It removes fields, with what is below them, or all others.
type filter[P set[S], S any] struct {
	fields P
	others bool
}

// Filter returns what is left of fields.
func (f filter[P, S]) Filter(fields P) P {
	without := P(fields.RecursiveDifference(f.fields))
	if !f.others {
		return without
	}
	return fields.Difference(without)
}

// resetFields returns fields, or none, as a field manager's entry has them. They are the ones that a write cannot
// change, or, if others is true, the only ones that it can.
func resetFields(r *api.Resource, subresource string) (fields string, others bool) {
	switch {
	case subresource == "" && r.Status:
		return `{"f:status":{}}`, false
	case subresource == "status" && r.BuiltIn:
		labels := ""
		if r.Rules.StatusKeepsLabels {
			labels = `,"f:labels":{}`
		}
		return `{"f:spec":{},"f:metadata":{"f:deletionTimestamp":{},"f:ownerReferences":{}` + labels + `}}`, false
	case subresource == "status":
		return `{"f:status":{}}`, true
	case subresource == "scale":
		return `{"f:spec":{"f:replicas":{}}}`, true
	}
	return "", false
}
