package rest

import (
	"context"
	"fmt"
	"strings"

	"github.com/tidings/tidings/object"
	"github.com/tidings/tidings/tidingstest/internal/api"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// ScaleOf returns the scale subresource of an object.
func ScaleOf(r *api.Resource, o object.Object) (*autoscalingv1.Scale, error) {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
	if err != nil {
		return nil, err
	}
	scale := &autoscalingv1.Scale{
		TypeMeta: metav1.TypeMeta{APIVersion: "autoscaling/v1", Kind: "Scale"},
		ObjectMeta: metav1.ObjectMeta{
			Name: o.GetName(), Namespace: o.GetNamespace(), UID: o.GetUID(),
			ResourceVersion: o.GetResourceVersion(), CreationTimestamp: o.GetCreationTimestamp(),
		},
	}
	replicas, found, _ := unstructured.NestedInt64(content, steps(r.ScalePaths.Replicas)...)
	if !found && r.BuiltIn {
		replicas = 1
	}
	scale.Spec.Replicas = int32(replicas)
	status, _, _ := unstructured.NestedInt64(content, steps(r.ScalePaths.StatusReplicas)...)
	scale.Status.Replicas = int32(status)
	scale.Status.Selector, err = selectorText(content, r.ScalePaths.Selector)
	return scale, err
}

// selectorText returns the selector at a path as a string. It may be a string, a label selector or a set of labels.
func selectorText(content map[string]any, path string) (string, error) {
	if path == "" {
		return "", nil
	}
	value, found, _ := unstructured.NestedFieldNoCopy(content, steps(path)...)
	switch value := value.(type) {
	case string:
		return value, nil
	case map[string]any:
		selector := &metav1.LabelSelector{}
		if _, has := value["matchLabels"]; !has && value["matchExpressions"] == nil {
			value = map[string]any{"matchLabels": value}
		}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(value, selector); err != nil {
			return "", err
		}
		parsed, err := metav1.LabelSelectorAsSelector(selector)
		if err != nil {
			return "", err
		}
		return parsed.String(), nil
	default:
		if found {
			return "", fmt.Errorf("%s is a %T", path, value)
		}
		return "", nil
	}
}

// steps splits a path such as ".spec.replicas".
func steps(path string) []string { return strings.Split(strings.TrimPrefix(path, "."), ".") }

// UpdateScale sets the number of replicas of an object to that of the scale that edit returns for the current
// scale.
func (r *Registry) UpdateScale(ctx context.Context, request Request, edit func(*autoscalingv1.Scale) (*autoscalingv1.Scale, error)) (*autoscalingv1.Scale, error) {
	request.Subresource = "scale"
	o, _, err := r.Update(ctx, request, false, func(old object.Object) (object.Object, error) {
		present, err := ScaleOf(request.Resource, old)
		if err != nil {
			return nil, apierrors.NewInternalError(err)
		}
		wanted, err := edit(present)
		if err != nil {
			return nil, err
		}
		if err := checkScale(request, wanted); err != nil {
			return nil, err
		}
		next, err := withReplicas(request.Resource, old, wanted.Spec.Replicas)
		if err != nil {
			return nil, apierrors.NewInternalError(err)
		}
		managedMeta(wanted, next)
		return r.Manage(request, old, next)
	})
	if err != nil {
		return nil, err
	}
	return ScaleOf(request.Resource, o)
}

func checkScale(request Request, scale *autoscalingv1.Scale) error {
	if scale.Name != "" && scale.Name != request.Name {
		return apierrors.NewBadRequest(fmt.Sprintf("the name of the object (%s) does not match the name on the URL (%s)", scale.Name, request.Name))
	}
	if scale.Spec.Replicas < 0 {
		return apierrors.NewInvalid(schema.GroupKind{Group: "autoscaling", Kind: "Scale"}, request.Name, field.ErrorList{
			field.Invalid(field.NewPath("spec", "replicas"), scale.Spec.Replicas, "must be greater than or equal to 0"),
		})
	}
	return nil
}

func withReplicas(r *api.Resource, o object.Object, replicas int32) (object.Object, error) {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o.DeepCopyObject())
	if err != nil {
		return nil, err
	}
	if err := unstructured.SetNestedField(content, int64(replicas), steps(r.ScalePaths.Replicas)...); err != nil {
		return nil, err
	}
	if !r.BuiltIn {
		return &unstructured.Unstructured{Object: content}, nil
	}
	next := NewObject(r)
	err = runtime.DefaultUnstructuredConverter.FromUnstructured(content, next)
	return next, err
}
