package source_test

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/tidings/tidings/object"
	"github.com/tidings/tidings/source"
)

// canary is the value of a Secret, and canary64 its form in JSON.
const canary = "QWXZJKVQPY7391846205"

var canary64 = base64.StdEncoding.EncodeToString([]byte(canary))

// refuseCanary fails if the text of an error, or of one that it wraps, has a part of the canary.
func refuseCanary(t *testing.T, name string, err error) {
	t.Helper()
	for ; err != nil; err = errors.Unwrap(err) {
		text := fmt.Sprintf("%v %+v", err, err)
		for _, form := range []string{canary, canary64} {
			for i := 0; i+6 <= len(form); i++ {
				if strings.Contains(text, form[i:i+6]) {
					t.Fatalf("%s: a %T says %q", name, err, text)
				}
			}
		}
	}
}

// refuseCanaries lists or watches, and checks all errors.
func refuseCanaries[T object.Object](t *testing.T, name string, from source.ListerWatcher[T], watch bool) {
	t.Helper()
	if !watch {
		skip := func(e *source.ObjectError) { refuseCanary(t, name, e) }
		_, err := from.List(t.Context(), source.ListOptions[T]{Skip: skip}, func(T) error { return nil })
		refuseCanary(t, name, err)
		return
	}
	stream, err := from.Watch(t.Context(), source.WatchOptions[T]{ResourceVersion: "1"})
	if err != nil {
		refuseCanary(t, name, err)
		return
	}
	defer stream.Close()
	for err == nil {
		var events []source.Event[T]
		events, err = stream.Next(nil)
		refuseCanary(t, name, err)
		for _, e := range events {
			refuseCanary(t, name, e.Err)
		}
	}
}

// secretBody is the body of a list or watch of Secrets. As a RoundTripper, it answers every request.
type secretBody struct {
	contentType string
	watch       bool
	body        []byte
}

func (b *secretBody) RoundTrip(r *http.Request) (*http.Response, error) {
	return (&sameAnswer{code: 200, contentType: b.contentType, body: string(b.body)}).RoundTrip(r)
}

func secretBodies(t *testing.T) []secretBody {
	t.Helper()
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "s", UID: "u", ResourceVersion: "7"}, Data: map[string][]byte{"k": []byte(canary)},
	}
	raw, err := secret.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	event := metav1.WatchEvent{Type: "ADDED"}
	event.Object.Raw = append([]byte("k8s\x00"), runtimeUnknown(t, "v1", "Secret", raw)...)
	frame, err := event.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	text := `{"apiVersion":"v1","kind":"Secret","metadata":{"namespace":"a","name":"s","uid":"u","resourceVersion":"7"},"data":{"k":"` + canary64 + `"}}`
	return []secretBody{
		{"application/json", false, []byte(`{"kind":"SecretList","apiVersion":"v1","metadata":{"resourceVersion":"9"},"items":[` + text + `]}`)},
		{"application/json", true, []byte(`{"type":"ADDED","object":` + text + `}`)},
		{"application/vnd.kubernetes.protobuf", false, append([]byte("k8s\x00"), runtimeUnknown(t, "v1", "SecretList", protoList(t, "9", raw))...)},
		{"application/vnd.kubernetes.protobuf;stream=watch", true, append(binary.BigEndian.AppendUint32(nil, uint32(len(frame))), frame...)},
	}
}

// variants returns a body that is cut off, or has a wrong, a missing or an additional byte, or the
// value in another form or place.
func variants(body []byte) [][]byte {
	all := [][]byte{
		bytes.Replace(body, []byte(`"`+canary64+`"`), []byte("73918462057391846205e9999"), 1),
		bytes.Replace(body, []byte(`{"k":"`+canary64+`"}`), []byte("7391846205"), 1),
		bytes.Replace(body, []byte(`"items":[`), []byte(`"items":["`+canary64+`",`), 1),
		bytes.Replace(body, []byte(`"items":[`), []byte(`"items":"`+canary64+`","other":[`), 1),
		bytes.Replace(body, []byte(`"items"`), []byte(`{"a":"`+canary64+`"}`), 1),
	}
	for i := range body {
		all = append(all, body[:i], slices.Delete(bytes.Clone(body), i, i+1), slices.Insert(bytes.Clone(body), i, '"'))
		for _, c := range []byte{'"', 0xff, body[i] ^ 1} {
			wrong := bytes.Clone(body)
			wrong[i] = c
			all = append(all, wrong)
		}
	}
	return all
}

// TestErrorsQuoteNoSecret breaks bodies with a Secret in many ways: no error of any source has a part of its value.
func TestErrorsQuoteNoSecret(t *testing.T) {
	scope := source.Scope{Resource: corev1.SchemeGroupVersion.WithResource("secrets")}
	for _, answer := range secretBodies(t) {
		config := &rest.Config{Host: "http://server.test", Transport: &answer, QPS: -1}
		client, err1 := source.NewClient(config)
		forDynamic, err2 := dynamic.NewForConfig(config)
		forTyped, err3 := kubernetes.NewForConfig(config)
		if err := errors.Join(err1, err2, err3); err != nil {
			t.Fatal(err)
		}
		typed, err1 := source.NewHTTP[*corev1.Secret](client, scope)
		partial, err2 := source.NewHTTP[*metav1.PartialObjectMetadata](client, scope)
		loose, err3 := source.NewHTTP[*unstructured.Unstructured](client, scope)
		fromDynamic, err4 := source.FromClient[*unstructured.Unstructured](forDynamic.Resource(scope.Resource), scope)
		fromTyped, err5 := source.FromClient[*corev1.Secret](forTyped.CoreV1().Secrets(""), scope)
		if err := errors.Join(err1, err2, err3, err4, err5); err != nil {
			t.Fatal(err)
		}
		for _, answer.body = range variants(answer.body) {
			refuseCanaries(t, "typed", typed, answer.watch)
			refuseCanaries(t, "metadata", partial, answer.watch)
			refuseCanaries(t, "unstructured", loose, answer.watch)
			refuseCanaries(t, "typed client", fromTyped, answer.watch)
			refuseCanaries(t, "dynamic client", fromDynamic, answer.watch)
		}
	}
}

// TestErrorEventsOfClients: an ERROR event with anything but a Status does not quote it.
func TestErrorEventsOfClients(t *testing.T) {
	events := watch.NewFake()
	go events.Error(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "s"}, StringData: map[string]string{"k": canary}})
	stream := source.NewStream[*corev1.Secret](t.Context(), events)
	defer stream.Close()
	_, err := stream.Next(nil)
	if err == nil {
		t.Error("no error")
	}
	refuseCanary(t, "fake", err)
}
