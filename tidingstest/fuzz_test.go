package tidingstest

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/tidings/tidings/internal/protocol"
)

// FuzzRequest sends requests of all kinds straight to the handler. It must neither panic nor leave an object in the store
// that cannot be listed.
func FuzzRequest(f *testing.F) {
	const (
		one  = "/api/v1/namespaces/a/configmaps/x"
		all  = "/api/v1/namespaces/a/configmaps"
		made = "/apis/example.com/v1/namespaces/a/widgets"
	)
	seeds := []struct{ method, target, contentType, body string }{
		{"GET", "/api/v1/pods?limit=1&continue=eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MSwic3RhcnQiOiJhIn0", "", ""},
		{"GET", "/apis/apps/v1/deployments?labelSelector=a%3Db&fieldSelector=metadata.name%3Dx&resourceVersion=0", "", ""},
		{"GET", "/openapi/v3/api/v1", "", ""},
		{"POST", all, protocol.JSON, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"y","managedFields":[{"fieldsV1":{"f:x":{}}}]},"data":{"k":"v"}}`},
		{"POST", all, protocol.YAML, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: z, finalizers: [a/b]}"},
		{"POST", all, protocol.Protobuf, "k8s\x00\n\x0f\n\x02v1\x12\tConfigMap\x12\x05\n\x03\n\x01x"},
		{"POST", made, protocol.JSON, `{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"generateName":"w"},"spec":{"a":[1,2.5,null]}}`},
		{"PUT", one, protocol.JSON, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"x","resourceVersion":"7","ownerReferences":[{}]}}`},
		{"PATCH", one, "application/json-patch+json", `[{"op":"move","from":"/data","path":"/metadata/labels/x"},{"op":"add","path":"/metadata/finalizers/-","value":1}]`},
		{"PATCH", one, "application/merge-patch+json", `{"metadata":{"managedFields":[{}],"labels":null}}`},
		{"PATCH", one, "application/strategic-merge-patch+json", `{"metadata":{"ownerReferences":[{"$patch":"replace"},{"uid":"1"}],"$setElementOrder/finalizers":["a"]}}`},
		{"PATCH", one + "?fieldManager=me&force=true", "application/apply-patch+yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\ndata: {k: w}"},
		{"PATCH", made + "/w?fieldManager=me", "application/apply-patch+yaml", "apiVersion: example.com/v1\nkind: Widget\nspec: {a: [{b: 1}]}"},
		{"DELETE", one, protocol.JSON, `{"kind":"DeleteOptions","apiVersion":"v1","gracePeriodSeconds":-5,"preconditions":{"uid":"x"}}`},
		{"DELETE", all + "?labelSelector=a", "", ""},
		{"POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", protocol.JSON, `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"widgets.example.com"},"spec":{"group":"example.com","names":{"plural":"widgets","kind":"Widget"},"scope":"Namespaced","versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object","properties":{"spec":{"type":"object","default":{"a":1}}}}}}]}}`},
		{"PUT", "/apis/apps/v1/namespaces/a/deployments/d/scale", protocol.JSON, `{"kind":"Scale","apiVersion":"autoscaling/v1","spec":{"replicas":2147483647}}`},
	}
	for _, s := range seeds {
		f.Add(s.method, s.target, s.contentType, s.body)
	}
	f.Fuzz(func(t *testing.T, method, target, contentType, body string) {
		request, ok := newRequest(method, target, contentType, body)
		if !ok {
			t.Skip()
		}
		s := newQuietServer(t)
		s.AddResource(widgets, "Widget")
		s.Create(configMap("a", "x"))
		s.Create(widget("a", "w"))
		answer := httptest.NewRecorder()
		if err := s.serve(answer, request); err == nil && answer.Code == 0 {
			t.Error("no answer")
		}
		for _, r := range s.catalog.All() {
			for _, media := range []string{protocol.JSON, protocol.Protobuf} {
				checkListable(t, s, r.GroupVersionResource.Resource, "/apis/"+r.GroupVersion().String(), media)
			}
			if r.Resource == "configmaps" {
				checkListable(t, s, r.Resource, "/api/v1", protocol.Protobuf)
			}
		}
	})
}

// newQuietServer returns a server without connections.
func newQuietServer(t *testing.T) *Server {
	s := NewServer(t, ServerOptions{GarbageCollector: true})
	s.token.Store(nil)
	return s
}

func newRequest(method, target, contentType, body string) (request *http.Request, ok bool) {
	if !strings.HasPrefix(target, "/") || strings.Contains(target, "watch") {
		return nil, false
	}
	request, err := http.NewRequest(method, "http://server.test"+target, strings.NewReader(body))
	if err != nil || request.URL.Query().Get("resourceVersion") != "" {
		return nil, false // it might wait for a version
	}
	if request.Header.Set("Content-Type", contentType); len(request.URL.Query()["continue"]) > 0 {
		return nil, false
	}
	return request, true
}

func checkListable(t *testing.T, s *Server, resource, prefix, media string) {
	if resource != "widgets" && resource != "configmaps" && resource != "customresourcedefinitions" {
		return
	}
	request, err := http.NewRequest(http.MethodGet, "http://server.test"+prefix+"/"+resource, nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Accept", media+",application/json")
	answer := httptest.NewRecorder()
	if err := s.serve(answer, request); err != nil || answer.Code != 200 && answer.Code != 404 {
		t.Errorf("cannot list %s: %d %s %v", resource, answer.Code, answer.Body, err)
	}
}
