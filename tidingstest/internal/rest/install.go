package rest

import (
	"github.com/tidings/tidings/object"
	"github.com/tidings/tidings/tidingstest/internal/crd"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Writes to CustomResourceDefinitions take effect immediately: the server starts or stops serving
// their resources before it responds to the writer.

// checkDefinition rejects a definition that cannot be installed.
func checkDefinition(request Request, o object.Object) error {
	u, ok := o.(*unstructured.Unstructured)
	if !ok || request.Resource.Storage != crd.Definitions.Storage {
		return nil
	}
	resources, err := crd.Resources(u)
	if err != nil {
		return invalid(request, o.GetName(), field.ErrorList{field.Invalid(field.NewPath("spec"), "", err.Error())})
	}
	for _, r := range resources {
		if want := r.GroupResource().String(); o.GetName() != want {
			return invalid(request, o.GetName(), field.ErrorList{
				field.Invalid(field.NewPath("metadata", "name"), o.GetName(), "must be spec.names.plural+\".\"+spec.group"),
			})
		}
	}
	return nil
}

// install serves the resources of a definition that was written, and sets its status accordingly.
func (r *Registry) install(request Request, o, old object.Object) {
	u, ok := o.(*unstructured.Unstructured)
	if !ok || request.Resource.Storage != crd.Definitions.Storage {
		return
	}
	if old != nil {
		r.forget(old, false)
	}
	resources, err := crd.Resources(u)
	if err != nil {
		return // checkDefinition has checked it
	}
	for _, resource := range resources {
		r.Catalog.Add(resource)
	}
	if old != nil {
		return
	}
	request.Name, request.Subresource = o.GetName(), "status"
	r.edit(request, func(o object.Object) {
		crd.SetEstablished(o.(*unstructured.Unstructured), r.now().UTC().Format("2006-01-02T15:04:05Z"))
	})
}

// uninstall stops serving the resources of a deleted definition, and drops their objects.
func (r *Registry) uninstall(request Request, gone object.Object) {
	if request.Resource.Storage == crd.Definitions.Storage {
		r.forget(gone, true)
	}
}

func (r *Registry) forget(o object.Object, drop bool) {
	u, ok := o.(*unstructured.Unstructured)
	if !ok {
		return
	}
	resources, err := crd.Resources(u)
	if err != nil {
		return
	}
	for _, resource := range resources {
		r.Catalog.Remove(resource.GroupVersionResource)
		if drop {
			r.Store.Remove(resource.Storage)
		}
	}
}
