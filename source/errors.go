package source

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kjson "sigs.k8s.io/json"

	"github.com/tidings/tidings/internal/redact"
	"github.com/tidings/tidings/internal/wire/json"
	"github.com/tidings/tidings/internal/wire/proto"
	"github.com/tidings/tidings/object"
)

// ErrClosed is returned by Next after the stream has been closed.
var ErrClosed = errors.New("watch: the stream was closed")

// ErrEnded is the error from Next on a stream that has ended if the source cannot tell whether the server ended the watch
// or the connection broke: client-go's clients close their watches alike.
var ErrEnded = fmt.Errorf("the client's watch has ended: %w", io.EOF)

// ObjectError reports one object, whose key could be read, that cannot be decoded or does not belong to the collection.
type ObjectError struct {
	Key object.Key
	// UID and ResourceVersion are empty if they could not be read.
	UID, ResourceVersion string
	// Event is the type of the watch event, Invalid if it is not a known type, and 0 for an item of a list.
	Event EventType
	Err   error
}

// Error names the object and says what is wrong with it.
func (e *ObjectError) Error() string { return fmt.Sprintf("object %s: %v", e.Key, e.Err) }

// Unwrap returns Err.
func (e *ObjectError) Unwrap() error { return e.Err }

// KindError reports that the server's objects are of another kind than the wanted one. It ends a
// list of another kind, and a watch whose initial events or bookmarks are of another kind.
type KindError struct{ Got, Want schema.GroupVersionKind }

// Error names both kinds.
func (e *KindError) Error() string {
	return fmt.Sprintf("kind is %v where %v is wanted; if the server is right, set Scope.Kind", e.Got, e.Want)
}

// TooLargeError ends a list or watch with an object that is larger than Scope.MaxObjectBytes, or
// that claims to be because the data are corrupt.
type TooLargeError struct {
	// Size is the size of the object in bytes according to its header; -1 if it is not known.
	Size int64
	// Limit is Scope.MaxObjectBytes.
	Limit int
	// Key is the object's key, if it could be read.
	Key object.Key
}

func (e *TooLargeError) Error() string {
	what, size := "an object", "is"
	if e.Key.Name != "" {
		what = "object " + e.Key.String()
	}
	if e.Size >= 0 {
		size = fmt.Sprintf("has %d bytes, which is", e.Size)
	}
	return fmt.Sprintf("%s %s more than the limit of %d bytes; raise Scope.MaxObjectBytes if it really is that large", what, size, e.Limit)
}

// ContentTypeError reports a response in an encoding that sources do not support, for example if a
// proxy or a login page responds instead of the API server.
type ContentTypeError struct {
	ContentType string
	// Start is the beginning of the body, if it is text and not an object.
	Start string
}

func (e *ContentTypeError) Error() string {
	s := fmt.Sprintf("the response is %q, which is neither JSON nor Kubernetes protobuf; is this really the address of an API server?", e.ContentType)
	if e.Start != "" {
		s += fmt.Sprintf(" It starts with %q", e.Start)
	}
	return s
}

// bodyError turns an error from reading a body into one that the user can act on.
func bodyError(err error, scope Scope) error {
	if limit, ok := errors.AsType[*json.LimitError](err); ok {
		return fmt.Errorf("%w (%s)", &TooLargeError{Size: -1, Limit: limit.Limit}, limit.What)
	}
	if limit, ok := errors.AsType[*proto.LimitError](err); ok {
		metadata := proto.StartOf(limit.Start, 1)
		key := object.Key{Namespace: string(proto.StartOf(metadata, 3)), Name: string(proto.StartOf(metadata, 1))}
		size := int64(min(limit.Size, math.MaxInt64))
		return fmt.Errorf("%v: %w", scope, &TooLargeError{Size: size, Limit: limit.Limit, Key: key})
	}
	if e, ok := errors.AsType[*apierrors.StatusError](err); ok {
		err = statusError(e.ErrStatus, 0)
	}
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("%v: the connection broke in the middle: %w", scope, err)
	}
	return fmt.Errorf("%v: %w", scope, err)
}

// Limits in bytes for the body of an error response, and for the text of it that goes into a message.
const (
	maxErrorBody = 1 << 20
	maxErrorText = 512
)

// newContentTypeError returns the error for a response, with the beginning of its body.
func newContentTypeError(response *http.Response) error {
	e := &ContentTypeError{ContentType: response.Header.Get("Content-Type")}
	if isText(e.ContentType) {
		start, _ := io.ReadAll(io.LimitReader(response.Body, maxErrorText)) // best effort
		if !mayBeObject(start) {
			e.Start = strings.ToValidUTF8(string(start), "?")
		}
	}
	return e
}

// mayBeObject reports whether a body looks like an object, or an event, under a wrong content type.
// Messages must not quote that, as it may be a Secret.
func mayBeObject(body []byte) bool {
	return bytes.HasPrefix(bytes.TrimSpace(body), []byte("{")) || bytes.IndexByte(body, 0) >= 0
}

// responseError returns the error for a response that is not 200 OK: from the Status in its body if there is one,
// otherwise from the status code.
func responseError(response *http.Response) error {
	body, _ := io.ReadAll(io.LimitReader(response.Body, maxErrorBody)) // best effort
	after := retryAfter(response.Header.Get("Retry-After"))
	contentType := response.Header.Get("Content-Type")
	if status, ok := readStatus(contentType, body); ok {
		if status.Code == 0 {
			status.Code = int32(response.StatusCode)
		}
		return statusError(status, after)
	}
	text := ""
	if isText(contentType) && (response.StatusCode >= http.StatusBadRequest || !mayBeObject(body)) {
		text = strings.ToValidUTF8(strings.TrimSpace(string(body[:min(len(body), maxErrorText)])), "?")
	}
	err := apierrors.NewGenericServerResponse(response.StatusCode, http.MethodGet, schema.GroupResource{}, "", text, after, true)
	if err.ErrStatus.Message == "" {
		err.ErrStatus.Message = fmt.Sprintf("the server responded %s without further details", response.Status)
	}
	return err
}

// readStatus decodes a Status in protobuf or JSON, and returns false if the body is something else.
func readStatus(contentType string, body []byte) (metav1.Status, bool) {
	media, _, _ := mime.ParseMediaType(contentType) // an invalid one matches neither case
	var status metav1.Status
	var err error
	switch media {
	case jsonType:
		status, err = jsonStatus(body)
	case protobufType:
		status, err = protobufStatus(body)
	}
	if err != nil {
		return status, false
	}
	return status, status.Status == metav1.StatusFailure || status.Code >= http.StatusBadRequest
}

var errNoStatus = errors.New("want a Status")

func jsonStatus(data []byte) (status metav1.Status, err error) {
	if err := kjson.UnmarshalCaseSensitivePreserveInts(data, &status); err != nil {
		return status, redact.Decoding(err)
	}
	if status.Kind != "Status" {
		return status, errNoStatus
	}
	return status, nil
}

func protobufStatus(data []byte) (status metav1.Status, err error) {
	e, err := openEnvelope(data)
	if err != nil {
		return status, err
	}
	if string(e.Kind) != "Status" {
		return status, errNoStatus
	}
	return status, status.Unmarshal(e.Raw)
}

// statusError wraps a Status. retryAfter, the header's Retry-After in seconds, is used if the body has none.
func statusError(status metav1.Status, retryAfter int) error {
	if retryAfter > 0 {
		if status.Details == nil {
			status.Details = &metav1.StatusDetails{}
		}
		if status.Details.RetryAfterSeconds == 0 {
			status.Details.RetryAfterSeconds = int32(retryAfter)
		}
	}
	if status.Message == "" {
		status.Message = strings.TrimSpace(fmt.Sprintf("the server responded %d %s without further details", status.Code, status.Reason))
	}
	return &apierrors.StatusError{ErrStatus: status}
}

// retryAfter parses a Retry-After header, seconds or a date, into seconds from now; 0 if there is
// none. The result fits into an int32.
func retryAfter(header string) int {
	if seconds, err := strconv.ParseInt(header, 10, 32); err == nil || errors.Is(err, strconv.ErrRange) {
		return max(0, int(seconds))
	}
	if at, err := http.ParseTime(header); err == nil {
		return int(min(max(0, wholeSeconds(min(time.Until(at), math.MaxInt64-time.Second))), math.MaxInt32))
	}
	return 0
}

func isText(contentType string) bool {
	media, _, err := mime.ParseMediaType(contentType)
	return contentType == "" || err == nil && strings.HasPrefix(media, "text/")
}
