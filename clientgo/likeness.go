package clientgo

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"time"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/tidings/tidings"
	"github.com/tidings/tidings/object"
	"github.com/tidings/tidings/source"
)

// The client of a function that is read through gets a sample of the objects that the server has sent. They have to
// come out of the function as they went in.

const (
	// windowSize is how many objects are held back until the sample taken of them has been checked.
	windowSize = 256
	// sampleSize is the size of the sample of a list and of a watch's first events, and laterSampleSize that of the
	// pages after the first.
	sampleSize, laterSampleSize = 32, 8
	// sampledEvents is how many events of a watch are sampled batch by batch; of those that follow, about one in
	// sampleEvery.
	sampledEvents, sampleEvery = 64, 2048
	// maxBatch is the size of the largest batch of events.
	maxBatch = 512
	// checkTimeout limits how long a function may take for what it does with the answer to its request.
	checkTimeout = 5 * time.Second
)

// unlikeError says how what a function returned differs from what the server sent.
type unlikeError struct{ how string }

func (e unlikeError) Error() string { return e.how }

// errFailed says that a function has failed after the server's answer. It may do so by itself.
var errFailed error = unlikeError{"the function did not return what its client got"}

// isUnlike reports whether an error means that a function cannot be read through.
func isUnlike(err error) bool {
	if _, ok := errors.AsType[unlikeError](err); ok {
		return true
	}
	if _, ok := errors.AsType[*source.KindError](err); ok {
		return true
	}
	_, ok := errors.AsType[*source.ContentTypeError](err)
	return ok
}

// window holds back the first objects of a list until a check of them has passed.
type window struct {
	decoder
	each  func(received) error
	check func([]tidings.Object) error
	held  []received
	begun bool
	ready bool
}

// Begin begins objects that are handed on together, as those in the window are.
func (w *window) Begin() {
	if w.ready || !w.begun {
		w.decoder.Begin()
	}
	w.begun = true
}

func (w *window) take(r received) error {
	if w.ready {
		return w.each(r)
	}
	w.held = append(w.held, r)
	if len(w.held) < windowSize {
		return nil
	}
	return w.open()
}

// open checks the objects in the window and hands them on, unless that has happened.
func (w *window) open() error {
	if w.ready {
		return nil
	}
	w.ready = true
	var objects []tidings.Object
	for i := range w.held {
		if obj := w.held[i].Object; obj != nil {
			objects = append(objects, obj)
		}
	}
	if err := w.check(objects); err != nil {
		return err
	}
	for i := range w.held {
		if err := w.each(w.held[i]); err != nil {
			return err
		}
	}
	w.held = nil
	return nil
}

// spread returns a sample of objects: some of as many namespaces as possible, and others from all over the list.
func spread(objects []tidings.Object, size int) []tidings.Object {
	if len(objects) <= size {
		return objects
	}
	taken := make([]bool, len(objects))
	var sample []tidings.Object
	take := func(i int) {
		if !taken[i] && len(sample) < size {
			taken[i] = true
			sample = append(sample, objects[i])
		}
	}
	namespaces := map[string]bool{}
	for i, obj := range objects {
		if namespace := obj.GetNamespace(); !namespaces[namespace] && len(namespaces) < size/2 {
			namespaces[namespace] = true
			take(i)
		}
	}
	for i := range size {
		take(i * len(objects) / size)
	}
	return sample
}

// checkList lets the function list a sample.
func (s *functionSource) checkList(
	ctx context.Context, a *arrival, c *call[runtime.Object], sample []tidings.Object,
) error {
	response, err := listResponse(s.kindOf(a.request, sample), sample)
	if err != nil {
		return unlikeError{err.Error()}
	}
	a.answer(answer{response: response})
	list, err := finish(ctx, c)
	if err != nil {
		return err
	}
	items, err := meta.ExtractList(list)
	if err != nil {
		return unlikeError{fmt.Sprintf("the list function returned a %T", list)}
	}
	if len(items) != len(sample) {
		return unlikeError{fmt.Sprintf("the list function returned %d of %d objects", len(items), len(sample))}
	}
	byKey := map[object.Key]tidings.Object{}
	for _, obj := range sample {
		byKey[object.KeyOf(obj)] = obj
	}
	for _, item := range items {
		obj, ok := item.(tidings.Object)
		if !ok || !alike(obj, byKey[object.KeyOf(obj)]) {
			return unlikeError{"the list function returned another object than the server"}
		}
	}
	return nil
}

// finish waits for the function to return, which must not send another request before.
func finish[R any](ctx context.Context, c *call[R]) (none R, err error) {
	timer := time.NewTimer(checkTimeout)
	defer timer.Stop()
	select {
	case <-c.done:
	case a := <-c.arrivals:
		a.answer(answer{pass: true})
		return none, unlikeError{"the function sends more than one request"}
	case <-timer.C:
		return none, unlikeError{fmt.Sprintf("the function did not return within %v of its answer", checkTimeout)}
	case <-ctx.Done():
		return none, context.Cause(ctx)
	}
	if c.panicked != nil || c.err != nil {
		return none, errFailed
	}
	return c.result, nil
}

// alike reports whether two objects are equal but for the kind of a struct, which clients set in lists only.
func alike(a, b tidings.Object) bool {
	if b == nil || reflect.TypeOf(a) != reflect.TypeOf(b) {
		return false
	}
	return apiequality.Semantic.DeepEqual(withKind(a, schema.GroupVersionKind{}), withKind(b, schema.GroupVersionKind{}))
}

// withKind returns a shallow copy of a struct with another kind. Unstructured objects stay as they are.
func withKind(obj tidings.Object, kind schema.GroupVersionKind) tidings.Object {
	if _, ok := obj.(*unstructured.Unstructured); ok {
		return obj
	}
	shallow := reflect.New(reflect.TypeOf(obj).Elem())
	shallow.Elem().Set(reflect.ValueOf(obj).Elem())
	changed := shallow.Interface().(tidings.Object)
	changed.GetObjectKind().SetGroupVersionKind(kind)
	return changed
}

// kindOf returns the kind of the objects that a request is for, as a server would write it.
func (s *functionSource) kindOf(request *http.Request, sample []tidings.Object) schema.GroupVersionKind {
	switch s.example.(type) {
	case *metav1.PartialObjectMetadata:
		return metav1.SchemeGroupVersion.WithKind("PartialObjectMetadata")
	case *unstructured.Unstructured:
		if len(sample) > 0 {
			return sample[0].GetObjectKind().GroupVersionKind()
		}
		return schema.GroupVersionKind{Version: "v1"} // a List
	}
	of, _ := targetOf(request, request.URL.Query().Has("watch")) // it has been parsed before
	return of.resource.GroupVersion().WithKind(reflect.TypeOf(s.example).Elem().Name())
}

// listResponse returns an answer with a list of objects.
func listResponse(kind schema.GroupVersionKind, sample []tidings.Object) (*http.Response, error) {
	items := make([]json.RawMessage, len(sample))
	for i, obj := range sample {
		text, err := json.Marshal(withKind(obj, kind))
		if err != nil {
			return nil, err
		}
		items[i] = text
	}
	version := ""
	if len(sample) > 0 {
		version = sample[len(sample)-1].GetResourceVersion()
	}
	text, err := json.Marshal(map[string]any{
		"kind": kind.Kind + "List", "apiVersion": kind.GroupVersion().String(),
		"metadata": map[string]any{"resourceVersion": version}, "items": items,
	})
	if err != nil {
		return nil, err
	}
	return okResponse(io.NopCloser(bytes.NewReader(text)), int64(len(text))), nil
}

func okResponse(body io.ReadCloser, length int64) *http.Response {
	return &http.Response{
		Status: "200 OK", StatusCode: http.StatusOK, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {"application/json"}}, Body: body, ContentLength: length,
	}
}

// pendingKey is a context key. Its value is the *call whose result a pendingClient returns.
type pendingKey struct{}

// pendingClient is a client that returns what a function has returned that was called before, or calls it.
type pendingClient struct{ listWatch }

func (p pendingClient) List(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
	if c, ok := ctx.Value(pendingKey{}).(*call[runtime.Object]); ok {
		return c.wait()
	}
	return p.listWatch.List(ctx, opts)
}

func (p pendingClient) Watch(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
	if c, ok := ctx.Value(pendingKey{}).(*call[watch.Interface]); ok {
		return c.wait()
	}
	return p.listWatch.Watch(ctx, opts)
}
