package redact

import (
	"context"
	"errors"
	"net"
	"net/url"
	"regexp"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Error returns the text of an error about the resource. Errors from the server, the network and
// contexts are returned in full. All others may be decoding errors, which may quote the data: those
// about Secrets are withheld, and in those about other resources the quoted parts are, since any
// object may contain a Secret.
func Error(resource schema.GroupResource, err error) string {
	switch {
	case QuotesNoData(err):
		return err.Error()
	case IsSecret(resource):
		return resource.String() + ": the server's response could not be used; details are withheld because they may quote a secret"
	default:
		return quoted.ReplaceAllString(err.Error(), `"…"`)
	}
}

// quoted matches quoted text of two or more characters.
var quoted = regexp.MustCompile("\"(?:[^\"\\\\]|\\\\.){2,}\"|`[^`]{2,}`")

// QuotesNoData reports whether the error is from the server, the network or a context, and so not from decoding.
func QuotesNoData(err error) bool {
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
