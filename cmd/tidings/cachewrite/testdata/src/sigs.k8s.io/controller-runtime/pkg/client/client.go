// Package client has the shape of the real one.
package client

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

type Object interface{ metav1.Object }

type ListOption interface{ ApplyToList(*ListOptions) }

type ListOptions struct {
	Namespace             string
	UnsafeDisableDeepCopy *bool
}

func (o *ListOptions) ApplyToList(*ListOptions) {}

type UnsafeDisableDeepCopyOption bool

func (UnsafeDisableDeepCopyOption) ApplyToList(*ListOptions) {}

const UnsafeDisableDeepCopy = UnsafeDisableDeepCopyOption(true)

type Reader interface {
	Get(ctx context.Context, key string, obj any, opts ...any) error
	List(ctx context.Context, list any, opts ...ListOption) error
}

type Writer interface {
	Update(ctx context.Context, obj Object, opts ...any) error
}

type Client interface {
	Reader
	Writer
}
