package source_test

import (
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/tidings/tidings/source"
)

// clusterServer responds to the request for kube-system with a code and a body.
func clusterServer(t *testing.T, code int, body string) *source.Client {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/api/v1/namespaces/kube-system" {
			t.Errorf("request for %s", r.URL)
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		w.Write([]byte(body))
	}))
	t.Cleanup(server.Close)
	client, err := source.NewClient(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	return client
}

func TestClusterID(t *testing.T) {
	for _, tt := range []struct {
		name, body, id string
		code           int
		ok, failed     bool
	}{
		{name: "it has one", code: 200, body: `{"kind":"Namespace","metadata":{"name":"kube-system","uid":"f00"}}`, id: "f00", ok: true},
		{name: "forbidden", code: 403, body: `{"kind":"Status","status":"Failure","reason":"Forbidden","code":403}`},
		{name: "no such namespace", code: 404, body: `{"kind":"Status","status":"Failure","reason":"NotFound","code":404}`},
		{name: "no such method", code: 405, body: `not here`},
		{name: "bad request", code: 400, body: `{}`},
		{name: "not implemented", code: 501, body: ``},
		{name: "not logged in", code: 401, body: `{}`, failed: true},
		{name: "too many requests", code: 429, body: `{}`, failed: true},
		{name: "a namespace without uid", code: 200, body: `{}`},
		{name: "the server is down", code: 503, body: `{}`, failed: true},
		{name: "no JSON", code: 200, body: `<html>`, failed: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			id, ok, err := clusterServer(t, tt.code, tt.body).ClusterID(t.Context())
			if id != tt.id || ok != tt.ok || (err != nil) != tt.failed {
				t.Errorf("got %q, %t, %v", id, ok, err)
			}
		})
	}
}

func TestAddress(t *testing.T) {
	of := func(config *rest.Config) string {
		client, err := source.NewClient(config)
		if err != nil {
			t.Fatal(err)
		}
		return client.Address()
	}
	if got := of(&rest.Config{Host: "http://user:secret@a.test"}); strings.Contains(got, "secret") || !strings.Contains(got, "a.test") {
		t.Errorf("address %q", got)
	}
	if a, b := of(&rest.Config{Host: "http://a.test"}), of(&rest.Config{Host: "http://b.test"}); a == b {
		t.Errorf("two servers are %q", a)
	}
	server := httptest.NewTLSServer(http.NotFoundHandler())
	defer server.Close()
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	plain := of(&rest.Config{Host: "https://a.test"})
	if plain != "https://a.test" && plain != "https://a.test/" {
		t.Errorf("without an authority %q", plain)
	}
	if got := of(&rest.Config{Host: "https://a.test", TLSClientConfig: rest.TLSClientConfig{CAData: authority}}); got == plain {
		t.Errorf("with and without an authority %q", got)
	}
}
