package tidingstest

import (
	"fmt"
	"mime"
	"net/http"

	"github.com/tidings/tidings/internal/protocol"
	"github.com/tidings/tidings/object"
	"github.com/tidings/tidings/tidingstest/internal/patch"
	"github.com/tidings/tidings/tidingstest/internal/rest"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

func (x *exchange) patch() error {
	kind, err := x.patchType()
	if err != nil {
		return err
	}
	data, err := x.readBody()
	if err != nil {
		return err
	}
	options := &metav1.PatchOptions{}
	if err := protocol.DecodeQuery(x.request.Query, options); err != nil {
		return err
	}
	if err := invalidOptions("PatchOptions", metavalidation.ValidatePatchOptions(options, kind)); err != nil {
		return err
	}
	request := x.writeRequest(options.FieldManager, options.DryRun)
	if kind == types.ApplyYAMLPatchType {
		return x.apply(request, data, options)
	}
	p := patch.Patch{Type: kind, Data: data, Refuse: validation(options.FieldValidation).strict()}
	if x.request.Subresource == "scale" {
		return x.patchScale(request, p)
	}
	edit := x.patched(request, p, validation(options.FieldValidation))
	return x.finishUpdate(x.server.registry.Update(x.r.Context(), request, false, edit))
}

// patchType returns the kind of patch for the body's media type. Custom resources do not support strategic merge
// patches.
func (x *exchange) patchType() (types.PatchType, error) {
	media, _, err := mime.ParseMediaType(x.r.Header.Get("Content-Type"))
	kind := types.PatchType(media)
	const accepted = "application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml"
	switch {
	case err != nil:
	case kind == types.JSONPatchType, kind == types.MergePatchType, kind == types.ApplyYAMLPatchType:
		return kind, nil
	case kind == types.StrategicMergePatchType && x.resource.BuiltIn:
		return kind, nil
	}
	if !x.resource.BuiltIn {
		return "", unsupportedMedia(accepted)
	}
	return "", &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusUnsupportedMediaType, Reason: metav1.StatusReasonUnsupportedMediaType,
		Message: "415: Unsupported Media Type", Details: &metav1.StatusDetails{},
	}}
}

// patched returns the edit that applies a patch.
func (x *exchange) patched(request rest.Request, p patch.Patch, v validation) rest.Edit {
	return func(old object.Object) (object.Object, error) {
		if old == nil {
			return nil, apierrors.NewNotFound(x.resource.GroupResource(), x.request.Name)
		}
		next := rest.NewObject(x.resource)
		problems, err := p.Apply(full(x.encoder).Object(old), next)
		if err != nil {
			return nil, err
		}
		x.problems(v, problems)
		if p.Type == types.StrategicMergePatchType {
			next.GetObjectKind().SetGroupVersionKind(x.resource.GroupVersionKind()) // whatever the patch says
		}
		if err := x.checkPatched(next, v); err != nil {
			return nil, err
		}
		if x.resource.BuiltIn {
			next.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
		}
		return x.server.registry.Manage(request, old, next)
	}
}

// full returns the encoding of whole objects.
func full(e protocol.Encoding) protocol.Encoding {
	e.Partial = false
	return e
}

// checkPatched checks what a patch must not change.
func (x *exchange) checkPatched(o object.Object, v validation) error {
	rest.Received(o)
	if u, ok := o.(*unstructured.Unstructured); ok {
		err := x.checkCustom(u, v)
		if err == nil {
			err = x.applySchema(u, v)
		}
		if _, ok := err.(apierrors.APIStatus); !ok && err != nil {
			return patch.Invalid(u.GetKind(), err)
		} else if err != nil {
			return err
		}
	} else if kind := withDefaults(o.GetObjectKind().GroupVersionKind(), x.resource.GroupVersionKind()); kind != x.resource.GroupVersionKind() {
		return patch.Invalid(kind.String(), fmt.Errorf("converting (%s.%s) to (%s.%s): unknown conversion", kind.Version, kind.Kind, x.resource.Group, x.resource.Kind))
	}
	if err := x.checkNamespace(o); err != nil {
		return err
	}
	return x.checkName(o)
}

// withDefaults fills in what a kind leaves out.
func withDefaults(kind, defaults schema.GroupVersionKind) schema.GroupVersionKind {
	if kind.Kind == "" {
		kind.Kind = defaults.Kind
	}
	if kind.Group == "" && kind.Version == "" {
		kind.Group, kind.Version = defaults.Group, defaults.Version
	}
	return kind
}

// apply carries out a server-side apply.
func (x *exchange) apply(request rest.Request, data []byte, options *metav1.PatchOptions) error {
	if request.Subresource != "" && !x.server.registry.Exists(request) {
		return request.NotFound()
	}
	content := map[string]any{}
	if asJSON, err := yaml.YAMLToJSON(data); err != nil {
		return apierrors.NewBadRequest(fmt.Sprintf("error decoding YAML: error converting YAML to JSON: %v", err))
	} else if err := kjson.UnmarshalCaseSensitivePreserveInts(asJSON, &content); err != nil {
		return apierrors.NewBadRequest(fmt.Sprintf("error decoding YAML: %v", err))
	}
	if err := x.checkStrictYAML(data, validation(options.FieldValidation)); err != nil {
		return err
	}
	applied := &unstructured.Unstructured{Object: content}
	if applied.Object == nil {
		applied.Object = map[string]any{}
	}
	return x.finishUpdate(x.server.registry.Update(x.r.Context(), request, request.Subresource == "", func(old object.Object) (object.Object, error) {
		return x.applied(request, old, applied.DeepCopy(), options)
	}))
}

func (x *exchange) checkStrictYAML(data []byte, v validation) error {
	if v.ignore() {
		return nil
	}
	err := yaml.UnmarshalStrict(data, &map[string]any{})
	if err == nil || x.problems(v, []error{err}) {
		return nil
	}
	return apierrors.NewBadRequest(fmt.Sprintf("error strict decoding YAML: %v", err))
}

func (x *exchange) applied(request rest.Request, old object.Object, applied *unstructured.Unstructured, options *metav1.PatchOptions) (object.Object, error) {
	force := options.Force != nil && *options.Force
	if old == nil {
		old = rest.NewObject(x.resource)
	}
	next, err := x.server.registry.Apply(request, full(x.encoder).Object(old).(object.Object), applied, force)
	if err != nil {
		return nil, err
	}
	next = next.DeepCopyObject().(object.Object)
	next.GetObjectKind().SetGroupVersionKind(x.resource.GroupVersionKind())
	if err := x.checkPatched(next, validation(options.FieldValidation)); err != nil {
		return nil, err
	}
	if x.resource.BuiltIn {
		next.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
	}
	return next, nil
}

func kindsOf(o runtime.Object) schema.GroupVersionKind {
	kinds, _, err := scheme.Scheme.ObjectKinds(o)
	if err != nil {
		return schema.GroupVersionKind{}
	}
	return kinds[0]
}
