package serve

import (
	"encoding/json"
	"errors"
	"net/http"
	"reflect"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/tidings/tidings/tidingstest/controlplane"
)

var definitions = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1",
	Resource: "customresourcedefinitions"}

// TestVersionsOfACustomResource: each version of a custom resource is answered as the API server answers it, from
// memory if it is one of those served, and so are selectors by the fields that each version declares.
func TestVersionsOfACustomResource(t *testing.T) {
	c := controlplane.Start(t, controlplane.Options{UnsafeNoFsync: true})
	admin := dynamic.NewForConfigOrDie(c.Config())
	version := func(name string, storage bool, selectable ...any) map[string]any {
		fields := map[string]any{"color": map[string]any{"type": "string"}, "size": map[string]any{"type": "integer"}}
		return map[string]any{
			"name": name, "served": true, "storage": storage, "selectableFields": selectable,
			"schema": map[string]any{"openAPIV3Schema": map[string]any{
				"type": "object", "description": name,
				"properties": map[string]any{"spec": map[string]any{"type": "object", "properties": fields}},
			}},
		}
	}
	color, size := map[string]any{"jsonPath": ".spec.color"}, map[string]any{"jsonPath": ".spec.size"}
	definition := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": map[string]any{"name": "widgets.example.com"},
		"spec": map[string]any{
			"group": "example.com", "scope": "Namespaced",
			"names": map[string]any{"plural": "widgets", "singular": "widget", "kind": "Widget",
				"listKind": "WidgetList"},
			"versions": []any{version("v1", true, color, size), version("v1beta1", false, color),
				version("v1alpha1", false)},
		},
	}}
	if _, err := admin.Resource(definitions).Create(t.Context(), definition, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	v1 := schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "widgets"}
	for i, color := range []string{"red", "blue", "red"} {
		w := newWidget([]string{"a", "b", "c"}[i], v1)
		w.Object["spec"] = map[string]any{"color": color, "size": int64(i)}
		create(t, admin.Resource(v1).Namespace("default"), w)
	}
	r := startReplica(t, Options{Config: c.Config(), Resources: []string{"widgets.example.com",
		"widgets.v1beta1.example.com"}})
	user := serviceAccount(t, c.Config(), "reader", everything)
	for _, test := range []struct {
		version, query string
		fromMemory     bool
	}{
		{"v1", "", true}, {"v1beta1", "", true}, {"v1alpha1", "", false},
		{"v1", "&fieldSelector=spec.color%3Dred", true}, {"v1", "&fieldSelector=spec.color%3Dred,spec.size%3D2", true},
		{"v1beta1", "&fieldSelector=spec.color%3Dblue", true},
		{"v1beta1", "&fieldSelector=spec.size%3D2", false}, // which this version does not declare
		{"v1alpha1", "&fieldSelector=spec.color%3Dred", false}, {"v1", "&fieldSelector=spec.none%3Dx", false},
		{"v1", "&fieldSelector=metadata.name%3Db", true}, {"v1", "&labelSelector=a%3Db", true},
	} {
		path := "/apis/example.com/" + test.version + "/namespaces/default/widgets?resourceVersion=0" + test.query
		before := r.counts.answered.Load()
		code, body := answerTo(t, r.config(user), path, nil)
		wantCode, wantBody := answerTo(t, user, path, nil)
		if code != wantCode || code == http.StatusOK && !sameJSON(t, body, wantBody) {
			t.Errorf("%s: %d\n%s\nwant %d\n%s", path, code, body, wantCode, wantBody)
		}
		if fromMemory := r.counts.answered.Load() > before; fromMemory != test.fromMemory {
			t.Errorf("%s: from memory: %v", path, fromMemory)
		}
	}
	client := dynamic.NewForConfigOrDie(r.config(user)).Resource(v1).Namespace("default")
	w, err := client.Watch(t.Context(), metav1.ListOptions{FieldSelector: "spec.color=blue", ResourceVersion: "0"})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	if e := <-w.ResultChan(); e.Type != "ADDED" || e.Object.(*unstructured.Unstructured).GetName() != "b" {
		t.Error(e)
	}
	b, err := client.Get(t.Context(), "b", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	b.Object["spec"] = map[string]any{"color": "green"}
	if _, err := client.Update(t.Context(), b, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if e := <-w.ResultChan(); e.Type != "DELETED" {
		t.Error(e)
	}
}

// sameJSON reports whether two texts are the same JSON but for the order of members.
func sameJSON(t *testing.T, a, b string) bool {
	t.Helper()
	var x, y any
	if err := errors.Join(json.Unmarshal([]byte(a), &x), json.Unmarshal([]byte(b), &y)); err != nil {
		t.Fatal(err)
	}
	return reflect.DeepEqual(x, y)
}

// create creates an object of a resource whose definition may not be served yet.
func create(t *testing.T, client dynamic.ResourceInterface, o *unstructured.Unstructured) {
	t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for {
		_, err := client.Create(t.Context(), o, metav1.CreateOptions{})
		switch {
		case err == nil:
			return
		case !apierrors.IsNotFound(err) || time.Now().After(deadline):
			t.Fatal(err)
		}
		time.Sleep(50 * time.Millisecond)
	}
}
