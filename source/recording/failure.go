package recording

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"

	"github.com/tidings/tidings/internal/redact"
	"github.com/tidings/tidings/object"
	"github.com/tidings/tidings/source"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Codes of the errors that are distinguished. Of others, only the text is recorded.
const (
	codeEOF         = "eof"
	codeClosed      = "closed" // by the recorded program
	codeStatus      = "status"
	codeObject      = "object"
	codeKind        = "kind"
	codeContentType = "content type"
	codeOther       = "other"
)

// connectionErrors lists connection errors that need no details, with their codes. The first match counts.
var connectionErrors = []struct {
	code string
	err  error
}{
	{"unsupported", errors.ErrUnsupported},
	{"refused", syscall.ECONNREFUSED},
	{"reset", syscall.ECONNRESET},
	{"pipe", syscall.EPIPE},
	{"deadline", context.DeadlineExceeded},
	{"cut", io.ErrUnexpectedEOF},
	{"network closed", net.ErrClosed},
}

// errAbandoned is played where the recorded program itself ended a list or watch.
var errAbandoned = fmt.Errorf("the recorded program abandoned the request here: %w", io.ErrUnexpectedEOF)

// playedError is a played error: the recorded text, and an error of the same kind for errors.Is and errors.As.
type playedError struct {
	text    string
	wrapped error // may be nil
}

func (e *playedError) Error() string { return e.text }
func (e *playedError) Unwrap() error { return e.wrapped }

const maxErrorText = 1024

// failureOf converts an error for the file. Quoted parts of messages are left out if they may come from an object.
func failureOf(resource schema.GroupResource, err error) *failure {
	if err == io.EOF || errors.Is(err, source.ErrEnded) {
		return &failure{Code: codeEOF}
	}
	text := redact.Error(resource, err)
	f := &failure{Code: codeOther, Text: text[:min(len(text), maxErrorText)]}
	if e, ok := errors.AsType[*source.ObjectError](err); ok {
		f.Code, f.Key, f.UID, f.ResourceVersion = codeObject, &e.Key, e.UID, e.ResourceVersion
		if e.Event != 0 {
			f.Event = e.Event.String()
		}
		text := redact.Error(resource, e.Err)
		f.Text = text[:min(len(text), maxErrorText)]
		return f
	}
	if e, ok := errors.AsType[*source.KindError](err); ok {
		f.Code, f.Kinds = codeKind, &[2]metav1.GroupVersionKind{metav1.GroupVersionKind(e.Got), metav1.GroupVersionKind(e.Want)}
		return f
	}
	if e, ok := errors.AsType[*source.ContentTypeError](err); ok {
		f.Code, f.Text = codeContentType, e.ContentType
		return f
	}
	if status := apierrors.APIStatus(nil); errors.As(err, &status) {
		s := status.Status()
		f.Code, f.Text, f.Status = codeStatus, "", &s
		return f
	}
	f.Code = networkCode(err)
	return f
}

func networkCode(err error) string {
	if e, ok := errors.AsType[*net.DNSError](err); ok {
		if e.IsNotFound {
			return "no such host"
		}
		return "dns"
	}
	if _, ok := errors.AsType[x509.UnknownAuthorityError](err); ok {
		return "certificate"
	}
	for _, p := range connectionErrors {
		if errors.Is(err, p.err) {
			return p.code
		}
	}
	if e, ok := errors.AsType[net.Error](err); ok && e.Timeout() {
		return "timeout"
	}
	if _, ok := errors.AsType[*net.OpError](err); ok {
		return "network"
	}
	return codeOther
}

// err returns an error that callers cannot distinguish from the recorded one.
func (f *failure) err() error {
	switch f.Code {
	case codeEOF:
		return io.EOF
	case codeClosed:
		return errAbandoned
	case codeStatus:
		if f.Status != nil {
			return &apierrors.StatusError{ErrStatus: *f.Status}
		}
	case codeObject:
		e := &source.ObjectError{UID: f.UID, ResourceVersion: f.ResourceVersion, Event: eventType(f.Event), Err: errors.New(f.Text)}
		if f.Key != nil {
			e.Key = *f.Key
		}
		return e
	case codeKind:
		if f.Kinds != nil {
			return &source.KindError{Got: schema.GroupVersionKind(f.Kinds[0]), Want: schema.GroupVersionKind(f.Kinds[1])}
		}
	case codeContentType:
		return &source.ContentTypeError{ContentType: f.Text}
	case "no such host":
		return &playedError{f.Text, &net.DNSError{Err: f.Text, IsNotFound: true}}
	case "dns":
		return &playedError{f.Text, &net.DNSError{Err: f.Text}}
	case "certificate":
		return &playedError{f.Text, x509.UnknownAuthorityError{}}
	case "timeout":
		return &playedError{f.Text, os.ErrDeadlineExceeded}
	case "network":
		return &playedError{f.Text, &net.OpError{Op: "read", Net: "tcp", Err: errors.New(f.Text)}}
	}
	for _, p := range connectionErrors {
		if p.code == f.Code {
			return &playedError{f.Text, p.err}
		}
	}
	return &playedError{text: f.Text}
}

// objectError returns the recorded error about one object.
func (f *failure) objectError() *source.ObjectError {
	if e, ok := errors.AsType[*source.ObjectError](f.err()); ok {
		return e
	}
	return &source.ObjectError{Key: object.Key{}, Err: f.err()}
}

// eventType is the inverse of source.EventType.String; 0 if there is none.
func eventType(name string) source.EventType {
	for t := source.Added; t <= source.Invalid; t++ {
		if t.String() == name {
			return t
		}
	}
	return 0
}
