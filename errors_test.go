package tidings_test

import (
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func invalid(message string) error {
	return apierrors.NewInvalid(schema.GroupKind{Kind: "ListOptions"}, message, nil)
}

func expired() error { return apierrors.NewResourceExpired("too old resource version") }

func forbidden() error {
	return apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "", nil)
}
