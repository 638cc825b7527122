package redact

import (
	"context"
	"errors"
	"net"
	"net/url"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Error returns the text of an error about the resource. Of Secrets, only errors that cannot quote an object are
// told in full: what the server answered, what the network did, and what a context says. What remains are complaints
// about bytes that could not be decoded, and those may show some of them.
func Error(resource schema.GroupResource, err error) string {
	if !IsSecret(resource) || isHarmless(err) {
		return err.Error()
	}
	return resource.String() + ": what the server sent could not be used; the details are withheld because they may quote a secret"
}

func isHarmless(err error) bool {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return true
	}
	if _, ok := errors.AsType[*apierrors.StatusError](err); ok {
		return true
	}
	if _, ok := errors.AsType[net.Error](err); ok {
		return true
	}
	_, ok := errors.AsType[*url.Error](err)
	return ok
}
