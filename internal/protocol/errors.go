package protocol

import (
	"errors"
	"fmt"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Errors of a Storage, and of requests that end without a response of their own.
var (
	// ErrCompacted is returned by a Storage that no longer has a version.
	ErrCompacted = errors.New("the version is too old")
	// ErrGone is returned by a Storage whose resource was removed.
	ErrGone = errors.New("the resource is gone")
	// ErrCut ends a request whose connection is to be broken.
	ErrCut = errors.New("cut")
)

// Errors for paths and methods that no resource has.
var (
	ErrNoPath   = apierrors.NewGenericServerResponse(http.StatusNotFound, "", schema.GroupResource{}, "", "", 0, false)
	ErrNoMethod = apierrors.NewGenericServerResponse(http.StatusMethodNotAllowed, "", schema.GroupResource{}, "", "", 0, false)
)

// TooLarge is the error for a version that has not been reached in time.
func TooLarge[V uint64 | string](version, current V) error {
	err := apierrors.NewTimeoutError(fmt.Sprintf("Too large resource version: %v, current: %v", version, current), 1)
	err.ErrStatus.Details.Causes = []metav1.StatusCause{{
		Type:    metav1.CauseTypeResourceVersionTooLarge,
		Message: "Too large resource version",
	}}
	return err
}

// TooOld is the error in the ERROR event of a watch from a version before the oldest.
func TooOld(version, oldest uint64) *apierrors.StatusError {
	return apierrors.NewResourceExpired(fmt.Sprintf("too old resource version: %d (%d)", version, oldest))
}

// Expired is the error for a read at a version that is too old; errors.Is(err, ErrCompacted) is true.
func Expired() error { return expired("") }

// expired is the error for a list at a version that is too old. A client that was reading page by
// page gets a token with which to read the rest at the latest version.
func expired(start string) error {
	if start == "" {
		return joinCompacted(apierrors.NewResourceExpired("The resourceVersion for the provided list is too old."))
	}
	err := apierrors.NewResourceExpired("The provided continue parameter is too old to display a consistent list result. " +
		"You can start a new list without the continue parameter, or use the continue token in this response to retrieve the " +
		"remainder of the results. Continuing with the provided token results in an inconsistent list - objects that were " +
		"created, modified, or deleted between the time the first chunk was returned and now may show up in the list.")
	err.ErrStatus.Continue = Token{ResourceVersion: -1, Start: start}.String()
	return joinCompacted(err)
}

// joinCompacted makes errors.Is(err, ErrCompacted) true.
func joinCompacted(err *apierrors.StatusError) error { return compactedError{err} }

type compactedError struct{ *apierrors.StatusError }

func (e compactedError) Unwrap() []error { return []error{e.StatusError, ErrCompacted} }

// notAcceptable is the error for a client that accepts nothing that the server can write. A real
// server handles built-in and custom resources with different libraries, which have different
// messages.
func notAcceptable(builtIn bool) error {
	status := metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusNotAcceptable, Reason: metav1.StatusReasonNotAcceptable,
		Message: "only the following media types are accepted: " + MediaTypes,
	}
	if builtIn {
		status.Message = "406: Not Acceptable\n\nAvailable representations: " + MediaTypes
		status.Details = &metav1.StatusDetails{}
	}
	return &apierrors.StatusError{ErrStatus: status}
}

// errMetadataOfList is the error for a list that was requested as if it were one object.
var errMetadataOfList = &apierrors.StatusError{ErrStatus: metav1.Status{
	Status: metav1.StatusFailure, Code: http.StatusNotAcceptable, Reason: metav1.StatusReasonNotAcceptable,
	Message: "you requested PartialObjectMetadata, but the requested object is a list",
}}

// StatusOf returns the Status to respond with: the one that err carries, or an internal error with err's message.
func StatusOf(err error) *metav1.Status {
	status := metav1.Status{Status: metav1.StatusFailure, Code: http.StatusInternalServerError, Message: err.Error()}
	var carried apierrors.APIStatus
	if errors.As(err, &carried) {
		status = carried.Status()
	}
	status.TypeMeta = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}
	return &status
}
