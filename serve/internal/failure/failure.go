// Package failure tells apart what errors of requests to the API server say: that it has decided, or that nobody has.
package failure

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
)

// Unreachable reports whether an error says that a server did not answer.
func Unreachable(err error) bool {
	if all, ok := err.(utilerrors.Aggregate); ok {
		return slices.ContainsFunc(all.Errors(), Unreachable)
	}
	_, network := errors.AsType[net.Error](err)
	return network || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, io.EOF) ||
		errors.Is(err, io.ErrUnexpectedEOF)
}

// Undecided reports whether an error of a review says that nobody has decided: a server did not answer, or only that it
// could not do so now.
func Undecided(err error) bool {
	if all, ok := err.(utilerrors.Aggregate); ok {
		return slices.ContainsFunc(all.Errors(), Undecided)
	}
	status, ok := errors.AsType[*apierrors.StatusError](err)
	busy := ok && (status.ErrStatus.Code >= http.StatusInternalServerError ||
		status.ErrStatus.Code == http.StatusTooManyRequests)
	return busy || Unreachable(err)
}
