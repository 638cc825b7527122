package source

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/tidings/tidings/object"
)

// TestQueries checks the query parameters.
func TestQueries(t *testing.T) {
	type list = ListOptions[*corev1.Pod]
	scope := Scope{Labels: "app=x", Fields: "spec.nodeName=n"}
	for _, tt := range []struct {
		scope Scope
		opts  list
		want  string
	}{
		{Scope{}, list{}, ""},
		{Scope{}, list{Limit: 1}, "limit=1"},
		{Scope{}, list{Limit: -1}, ""},
		{scope, list{Limit: 25, Continue: "c"}, "continue=c&fieldSelector=spec.nodeName%3Dn&labelSelector=app%3Dx&limit=25"},
		{scope, list{ResourceVersion: "5", ResourceVersionMatch: "Exact"}, "fieldSelector=spec.nodeName%3Dn&labelSelector=app%3Dx&resourceVersion=5&resourceVersionMatch=Exact"},
		{Scope{}, list{Only: object.Key{Name: "b"}}, "fieldSelector=metadata.name%3Db"},
		{Scope{}, list{Only: object.Key{Namespace: "a"}}, ""},
		{scope, list{Only: object.Key{Namespace: "a", Name: "b=c"}}, "fieldSelector=spec.nodeName%3Dn%2Cmetadata.name%3Db%5C%3Dc%2Cmetadata.namespace%3Da&labelSelector=app%3Dx"},
	} {
		if got := listQuery(t.Context(), tt.scope, tt.opts).Encode(); got != tt.want {
			t.Errorf("%+v:\n%s, want\n%s", tt.opts, got, tt.want)
		}
	}
	for timeout, want := range map[time.Duration]string{
		0: "", 1: "&timeoutSeconds=1", time.Second: "&timeoutSeconds=1", time.Second + 1: "&timeoutSeconds=2", -time.Hour: "",
	} {
		if got := watchQuery(t.Context(), Scope{}, WatchOptions[*corev1.Pod]{Timeout: timeout}).Encode(); got != "allowWatchBookmarks=true"+want+"&watch=1" {
			t.Errorf("%v: %s", timeout, got)
		}
	}
}
