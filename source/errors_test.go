package source

import (
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/tidings/tidings/object"
)

func TestTooLargeErrorText(t *testing.T) {
	const end = " more than the limit of 7 bytes; raise Scope.MaxObjectBytes if it really is that large"
	for _, tt := range []struct {
		err  TooLargeError
		want string
	}{
		{TooLargeError{Size: -1, Limit: 7}, "an object is"},
		{TooLargeError{Size: 0, Limit: 7}, "an object has 0 bytes, which is"},
		{TooLargeError{Size: 9, Limit: 7, Key: object.Key{Namespace: "a", Name: "b"}}, "object a/b has 9 bytes, which is"},
		{TooLargeError{Size: -1, Limit: 7, Key: object.Key{Name: "b"}}, "object b is"},
	} {
		if got := tt.err.Error(); got != tt.want+end {
			t.Errorf("%+v: %s", tt.err, got)
		}
	}
}

func TestRetryAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for header, want := range map[string]int{
			"": 0, "0": 0, "-5": 0, "7": 7, "soon": 0, "99999999999999999999": math.MaxInt32, "-99999999999999999999": 0, "3000000000": math.MaxInt32,
			time.Now().UTC().Add(90 * time.Second).Format(http.TimeFormat): 90,
			time.Now().UTC().Add(-time.Hour).Format(http.TimeFormat):       0,
			time.Now().UTC().AddDate(100, 0, 0).Format(http.TimeFormat):    math.MaxInt32,
			time.Now().UTC().AddDate(5000, 0, 0).Format(http.TimeFormat):   math.MaxInt32,
			time.Now().UTC().AddDate(-1000, 0, 0).Format(http.TimeFormat):  0,
		} {
			if got := retryAfter(header); got != want {
				t.Errorf("%q: %d seconds, want %d", header, got, want)
			}
		}
	})
}

// TestStatusOfAnswers fills in fields that the Status in a body leaves out, and nothing else.
func TestStatusOfAnswers(t *testing.T) {
	for _, tt := range []struct {
		name, body, header string
		code               int32
		seconds            int32
		message            string
	}{
		{"nothing left out", `{"kind":"Status","status":"Failure","code":429,"message":"busy","details":{"retryAfterSeconds":3}}`, "7", 429, 3, "busy"},
		{"one second", `{"kind":"Status","status":"Failure","code":429,"message":"busy","details":{"retryAfterSeconds":1}}`, "7", 429, 1, "busy"},
		{"no seconds", `{"kind":"Status","status":"Failure","code":429,"message":"busy","details":{"name":"x"}}`, "7", 429, 7, "busy"},
		{"a second", `{"kind":"Status","status":"Failure","code":429,"message":"busy"}`, "1", 429, 1, "busy"},
		{"no details", `{"kind":"Status","status":"Failure","code":429,"message":"busy"}`, "7", 429, 7, "busy"},
		{"no seconds at all", `{"kind":"Status","status":"Failure","code":429,"message":"busy"}`, "0", 429, 0, "busy"},
		{"no code", `{"kind":"Status","status":"Failure","message":"no"}`, "", 403, 0, "no"},
		{"code 1", `{"kind":"Status","status":"Failure","code":1,"message":"no"}`, "", 1, 0, "no"},
		{"no message", `{"kind":"Status","status":"Failure","code":410,"reason":"Gone"}`, "", 410, 0, "the server responded 410 Gone without further details"},
		{"no failure, but an error's code", `{"kind":"Status","code":400,"message":"no"}`, "", 400, 0, "no"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			header := http.Header{"Content-Type": {jsonType}}
			if tt.header != "" {
				header.Set("Retry-After", tt.header)
			}
			err := responseError(&http.Response{StatusCode: 403, Status: "403 Forbidden", Header: header, Body: io.NopCloser(strings.NewReader(tt.body))})
			e, ok := errors.AsType[*apierrors.StatusError](err)
			if !ok {
				t.Fatalf("%T %v", err, err)
			}
			got := e.ErrStatus
			seconds := int32(0)
			if got.Details != nil {
				seconds = got.Details.RetryAfterSeconds
			}
			if got.Code != tt.code || seconds != tt.seconds || got.Message != tt.message || (tt.header == "0") != (got.Details == nil && tt.header != "") {
				t.Errorf("got %+v", got)
			}
		})
	}
}

// TestNoStatus: a body that is not a failure is not treated as one.
func TestNoStatus(t *testing.T) {
	for _, body := range []string{`{"kind":"Status","status":"Success","code":200}`, `{"kind":"Pod","code":500}`, `{"code":500}`, `[`} {
		if status, ok := readStatus(jsonType, []byte(body)); ok {
			t.Errorf("%s: %+v", body, status)
		}
	}
	if _, ok := readStatus("text/plain", []byte(`{"kind":"Status","status":"Failure","code":500}`)); ok {
		t.Error("text counts as a Status")
	}
}

func TestIsText(t *testing.T) {
	for contentType, want := range map[string]bool{"": true, "text/html; charset=utf-8": true, "text/plain": true, "application/json": false, ";;": false, "text": false} {
		if got := isText(contentType); got != want {
			t.Errorf("%q is text: %t", contentType, got)
		}
	}
}

// TestObjectsAreNotQuoted: a body under a wrong content type may hold Secrets, so that only text is part of the error.
func TestObjectsAreNotQuoted(t *testing.T) {
	const canary = "canary-7f3a"
	for _, contentType := range []string{"", "text/plain"} {
		for _, body := range []string{`{"kind":"Secret","stringData":{"p":"` + canary + `"}}`, "\n {\"p\":\"" + canary, "k8s\x00" + canary, "\x00\x00\x01\x00" + canary} {
			response := func(code int) *http.Response {
				return &http.Response{StatusCode: code, Header: http.Header{"Content-Type": {contentType}}, Body: io.NopCloser(strings.NewReader(body))}
			}
			for _, err := range []error{newContentTypeError(response(http.StatusOK)), responseError(response(http.StatusNonAuthoritativeInfo))} {
				if text := fmt.Sprintf("%v %+v", err, err); strings.Contains(text, canary) {
					t.Errorf("%q: %s", contentType, text)
				}
				if e, ok := errors.AsType[*apierrors.StatusError](err); ok && strings.Contains(e.ErrStatus.String(), canary) {
					t.Errorf("%q: %v", contentType, e.ErrStatus)
				}
			}
		}
	}
}
