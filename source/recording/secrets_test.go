package recording_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tidings/tidings/object"
	"github.com/tidings/tidings/source"
	"github.com/tidings/tidings/source/recording"
)

const canary = "canary-7f3a-correct-horse"

// lastApplied is the annotation that kubectl writes.
const lastApplied = "kubectl.kubernetes.io/last-applied-configuration"

// shows is a source that delivers one object in every way, and fails with errors that quote it.
func shows[T object.Object](obj T) source.ListerWatcher[T] {
	quoting := &source.ObjectError{Key: object.KeyOf(obj), Err: fmt.Errorf("cannot decode %q", canary)}
	return source.Funcs[T]{
		ListFunc: func(_ context.Context, opts source.ListOptions[T], each func(T) error) (source.ListResult, error) {
			opts.Skip(quoting)
			return source.ListResult{}, errors.Join(each(obj), fmt.Errorf("the body has %q", canary))
		},
		WatchFunc: func(context.Context, source.WatchOptions[T]) (source.Stream[T], error) {
			return &once[T]{events: []source.Event[T]{
				{Type: source.Added, Object: obj}, {Type: source.Modified, Object: obj}, {Type: source.Deleted, Object: obj}, {Type: source.Invalid, Err: quoting},
			}}, nil
		},
	}
}

type once[T object.Object] struct{ events []source.Event[T] }

func (s *once[T]) Next(buf []source.Event[T]) ([]source.Event[T], error) {
	events := s.events
	s.events = nil
	if events == nil {
		return buf, fmt.Errorf("garbage: %q", canary)
	}
	return append(buf, events...), nil
}

func (*once[T]) Close() error { return nil }

// recordAll returns the recording of everything that the source delivers.
func recordAll[T object.Object](t *testing.T, src source.ListerWatcher[T], scope source.Scope) []byte {
	t.Helper()
	var file bytes.Buffer
	recorder, err := recording.NewRecorder(&file, recording.Options{})
	if err != nil {
		t.Fatal(err)
	}
	of := recording.Record(recorder, src, scope)
	_, _ = of.List(t.Context(), source.ListOptions[T]{Skip: func(*source.ObjectError) {}}, func(T) error { return nil })
	stream, err := of.Watch(t.Context(), source.WatchOptions[T]{})
	if err != nil {
		t.Fatal(err)
	}
	for err == nil {
		_, err = stream.Next(nil)
	}
	stream.Close()
	if err := recorder.Close(); err != nil {
		t.Fatal(err)
	}
	return file.Bytes()
}

func refuseCanary(t *testing.T, file []byte) {
	t.Helper()
	for _, form := range []string{canary, base64.StdEncoding.EncodeToString([]byte(canary))} {
		if at := bytes.Index(file, []byte(form)); at >= 0 {
			t.Errorf("the recording holds the canary: …%s…", file[max(0, at-200):at+len(form)])
		}
	}
	if n := bytes.Count(file, []byte("\n")); n < 8 {
		t.Errorf("only %d entries", n)
	}
}

func TestNoSecretIsRecorded(t *testing.T) {
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "db", Annotations: map[string]string{
			lastApplied: `{"kind":"Secret","stringData":{"password":"` + canary + `"}}`, "note": "it is " + canary,
		}},
		Data: map[string][]byte{"password": []byte(canary)}, StringData: map[string]string{"again": canary},
	}
	secrets := schema.GroupVersionResource{Version: "v1", Resource: "secrets"}
	t.Run("typed", func(t *testing.T) {
		file := recordAll(t, shows(secret), source.Scope{Resource: secrets})
		refuseCanary(t, file)
		rec, err := recording.Read(bytes.NewReader(file), int64(len(file)))
		if err != nil {
			t.Fatal(err)
		}
		player, err := recording.Play[*corev1.Secret](rec, rec.Collections()[0], recording.PlayOptions{})
		if err != nil {
			t.Fatal(err)
		}
		_, _ = player.List(t.Context(), source.ListOptions[*corev1.Secret]{Skip: func(*source.ObjectError) {}}, func(s *corev1.Secret) error {
			if got := string(s.Data["password"]); got != fmt.Sprintf("[redacted, %d bytes]", len(canary)) {
				t.Errorf("the value is %q", got)
			}
			return nil
		})
	})
	t.Run("typed, of an unknown resource", func(t *testing.T) { refuseCanary(t, recordAll(t, shows(secret), source.Scope{})) })
	t.Run("unstructured", func(t *testing.T) {
		u := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"name": "db", "namespace": "shop"},
			"data": map[string]any{"p": base64.StdEncoding.EncodeToString([]byte(canary))}, "stringData": map[string]any{"q": canary},
		}}
		refuseCanary(t, recordAll(t, shows(u), source.Scope{Resource: secrets}))
		refuseCanary(t, recordAll(t, shows(u), source.Scope{}))
	})
	t.Run("metadata", func(t *testing.T) {
		m := &metav1.PartialObjectMetadata{ObjectMeta: secret.ObjectMeta}
		m.Annotations = map[string]string{lastApplied: secret.Annotations[lastApplied]}
		refuseCanary(t, recordAll(t, shows(m), source.Scope{Resource: secrets}))
	})
	t.Run("template", func(t *testing.T) {
		u := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "example.com/v1", "kind": "Bundle", "metadata": map[string]any{"name": "b", "namespace": "shop", "annotations": map[string]any{
				lastApplied: `{"spec":{"template":{"kind":"Secret","stringData":{"p":"` + canary + `"}}}}`,
			}},
			"spec": map[string]any{"template": map[string]any{"kind": "Secret", "stringData": map[string]any{"p": canary}}},
			"data": map[string]any{"all.yaml": "kind: Secret\nstringData:\n  p: " + canary + "\n"},
		}}
		refuseCanary(t, recordAll(t, shows(u), source.Scope{Resource: schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "bundles"}}))
	})
}

// TestNoLeftovers: redacting secrets for the recording does not change the recorded objects.
func TestNoLeftovers(t *testing.T) {
	u := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"name": "db"}, "stringData": map[string]any{"q": canary},
	}}
	before := u.DeepCopy()
	recorder, err := recording.NewRecorder(io.Discard, recording.Options{})
	if err != nil {
		t.Fatal(err)
	}
	src := recording.Record(recorder, shows(u), source.Scope{})
	_, _ = src.List(t.Context(), source.ListOptions[*unstructured.Unstructured]{Skip: func(*source.ObjectError) {}}, func(got *unstructured.Unstructured) error {
		if got != u || !strings.Contains(fmt.Sprint(got.Object), canary) {
			t.Error("the caller got another object")
		}
		return nil
	})
	if fmt.Sprint(before.Object) != fmt.Sprint(u.Object) {
		t.Error("the object was written to")
	}
}
