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

// Error returns the text of an error about the resource. What the server answered, what the network did, and what a context
// says is told in full. What remains are complaints about bytes that could not be decoded, and those may quote some of them:
// of Secrets they are withheld, and of all else, since any object may carry a Secret, the quoted parts.
func Error(resource schema.GroupResource, err error) string {
	switch {
	case isHarmless(err):
		return err.Error()
	case IsSecret(resource):
		return resource.String() + ": what the server sent could not be used; the details are withheld because they may quote a secret"
	default:
		return quoted.ReplaceAllString(err.Error(), `"…"`)
	}
}

// quoted is text of more than a character between quotes.
var quoted = regexp.MustCompile("\"(?:[^\"\\\\]|\\\\.){2,}\"|`[^`]{2,}`")

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
