package tidingstest

import (
	"fmt"
	"net/http"
	"strings"
	"unicode"

	"github.com/tidings/tidings/internal/protocol"
	"github.com/tidings/tidings/object"
	"github.com/tidings/tidings/tidingstest/internal/patch"
	"github.com/tidings/tidings/tidingstest/internal/rest"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// writeRequest returns the registry's description of the write.
func (x *exchange) writeRequest(manager string, dryRun []string) rest.Request {
	return rest.Request{
		Resource: x.resource, Subresource: x.request.Subresource, Namespace: x.request.Namespace, Name: x.request.Name,
		Manager: managerOf(manager, x.r.UserAgent()), UserAgent: x.r.UserAgent(), DryRun: len(dryRun) > 0, Warn: x.warn,
	}
}

// managerOf returns the field manager of a write: the one that the client names, or its program.
func managerOf(manager, userAgent string) string {
	if manager != "" {
		return manager
	}
	program, _, _ := strings.Cut(userAgent, "/")
	program = strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return -1
	}, program)
	return program[:min(len(program), metavalidation.FieldManagerMaxLength)]
}

func invalidOptions(kind string, errs field.ErrorList) error {
	if len(errs) == 0 {
		return nil
	}
	return apierrors.NewInvalid(schema.GroupKind{Group: metav1.GroupName, Kind: kind}, "", errs)
}

func (x *exchange) create() error {
	options := &metav1.CreateOptions{}
	if err := protocol.DecodeQuery(x.request.Query, options); err != nil {
		return err
	}
	if err := invalidOptions("CreateOptions", metavalidation.ValidateCreateOptions(options)); err != nil {
		return err
	}
	request := x.writeRequest(options.FieldManager, options.DryRun)
	switch x.request.Subresource {
	case "":
	case "binding":
		return x.bind(request)
	case "eviction":
		return x.evict(request)
	default:
		return protocol.ErrNoPath
	}
	o, err := x.decodeObject(validation(options.FieldValidation))
	if err != nil {
		return err
	}
	if o, err = x.server.registry.Create(x.r.Context(), request, o); err != nil {
		return err
	}
	return x.writeObject(http.StatusCreated, o)
}

func (x *exchange) bind(request rest.Request) error {
	binding := &corev1.Binding{}
	if err := x.decodeOther(binding); err != nil {
		return err
	}
	if err := x.server.registry.Bind(x.r.Context(), request, binding); err != nil {
		return err
	}
	return x.writeObject(http.StatusCreated, &metav1.Status{Status: metav1.StatusSuccess, Code: http.StatusCreated})
}

func (x *exchange) evict(request rest.Request) error {
	eviction := &policyv1.Eviction{}
	if err := x.decodeOther(eviction); err != nil {
		return err
	}
	if err := x.server.registry.Evict(x.r.Context(), request, eviction.DeleteOptions); err != nil {
		return err
	}
	return x.writeObject(http.StatusCreated, &metav1.Status{Status: metav1.StatusSuccess, Code: http.StatusCreated})
}

// decodeOther decodes a body of a kind other than the resource's.
func (x *exchange) decodeOther(into runtime.Object) error {
	kinds := kindsOf(into)
	media, err := x.bodyType(true)
	if err != nil {
		return err
	}
	data, err := x.readBody()
	if err != nil {
		return err
	}
	_, err = x.decodeBuiltIn(data, media, kinds, into, validation(x.request.Query.Get("fieldValidation")))
	return err
}

func (x *exchange) update() error {
	options := &metav1.UpdateOptions{}
	if err := protocol.DecodeQuery(x.request.Query, options); err != nil {
		return err
	}
	if err := invalidOptions("UpdateOptions", metavalidation.ValidateUpdateOptions(options)); err != nil {
		return err
	}
	request := x.writeRequest(options.FieldManager, options.DryRun)
	if x.request.Subresource == "scale" {
		return x.updateScale(request)
	}
	o, err := x.decodeObject(validation(options.FieldValidation))
	if err != nil {
		return err
	}
	if err := x.checkNamespace(o); err != nil {
		return err
	}
	if err := x.checkName(o); err != nil {
		return err
	}
	return x.finishUpdate(x.server.registry.Update(x.r.Context(), request, false, x.server.registry.Managed(request, o)))
}

func (x *exchange) finishUpdate(o object.Object, created bool, err error) error {
	switch {
	case x.r.Context().Err() != nil:
		return protocol.ErrCut
	case err != nil:
		return err
	case created:
		return x.writeObject(http.StatusCreated, o)
	}
	return x.writeObject(http.StatusOK, o)
}

// checkNamespace rejects an object whose namespace differs from that in the URL.
func (x *exchange) checkNamespace(o metav1.Object) error {
	if x.resource.Namespaced && o.GetNamespace() != "" && o.GetNamespace() != x.request.Namespace {
		return apierrors.NewBadRequest("the namespace of the provided object does not match the namespace sent on the request")
	}
	return nil
}

// checkName rejects an object whose name differs from that in the URL.
func (x *exchange) checkName(o metav1.Object) error {
	switch {
	case o.GetName() == "":
		return apierrors.NewBadRequest(fmt.Sprintf("the name of the object (%s based on URL) was undeterminable: name must be provided", x.request.Name))
	case o.GetName() != x.request.Name:
		return apierrors.NewBadRequest(fmt.Sprintf("the name of the object (%s) does not match the name on the URL (%s)", o.GetName(), x.request.Name))
	}
	return nil
}

func (x *exchange) updateScale(request rest.Request) error {
	wanted := &autoscalingv1.Scale{}
	if err := x.decodeOther(wanted); err != nil {
		return err
	}
	return x.finishScale(x.server.registry.UpdateScale(x.r.Context(), request, func(*autoscalingv1.Scale) (*autoscalingv1.Scale, error) {
		return wanted, nil
	}))
}

func (x *exchange) patchScale(request rest.Request, p patch.Patch) error {
	return x.finishScale(x.server.registry.UpdateScale(x.r.Context(), request, func(present *autoscalingv1.Scale) (*autoscalingv1.Scale, error) {
		wanted := &autoscalingv1.Scale{}
		_, err := p.Apply(present, wanted)
		return wanted, err
	}))
}

func (x *exchange) finishScale(scale *autoscalingv1.Scale, err error) error {
	if err != nil {
		return err
	}
	return x.writeObject(http.StatusOK, scale)
}

func (x *exchange) delete() error {
	options, err := x.deleteOptions()
	if err != nil {
		return err
	}
	if x.request.Subresource != "" {
		return protocol.ErrNoPath
	}
	request := x.writeRequest("", options.DryRun)
	answer, gone, err := x.server.registry.Delete(x.r.Context(), request, options)
	if err != nil {
		return err
	}
	code := http.StatusOK
	//lint:ignore SA1019 clients still send it
	if orphans := options.OrphanDependents; !gone && orphans != nil && !*orphans {
		code = http.StatusAccepted
	}
	return x.writeObject(code, answer)
}

func (x *exchange) deleteCollection() error {
	selection, err := x.selection()
	if err != nil {
		return err
	}
	options, err := x.deleteOptions()
	if err != nil {
		return err
	}
	if err := rest.ValidateDelete(options); err != nil {
		return err
	}
	page, err := protocol.ListPage(x.r.Context(), x.view(), selection)
	if err != nil {
		return err
	}
	for _, item := range page.Items {
		request := x.writeRequest("", options.DryRun)
		request.Namespace, request.Name = item.GetNamespace(), item.GetName()
		_, _, err := x.server.registry.Delete(x.r.Context(), request, options.DeepCopy())
		if err != nil && !apierrors.IsNotFound(err) {
			return err
		}
	}
	return x.writeList(page, nil)
}
