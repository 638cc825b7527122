package serve

import (
	"encoding/base64"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/endpoints/handlers/negotiation"
	"k8s.io/apiserver/pkg/storage"

	"github.com/tidings/tidings/internal/protocol"
	"github.com/tidings/tidings/serve/internal/replica"
	"github.com/tidings/tidings/tidingstest"
)

// accepted are the media types of an API server, in its order.
func accepted() (all []runtime.SerializerInfo) {
	for _, sub := range []string{"json", "yaml", "vnd.kubernetes.protobuf"} {
		info := runtime.SerializerInfo{MediaType: "application/" + sub, MediaTypeType: "application",
			MediaTypeSubType: sub}
		if sub != "yaml" {
			info.StreamSerializer = &runtime.StreamSerializerInfo{}
		}
		all = append(all, info)
	}
	return all
}

// endpoint says what a resource's endpoint of an API server can be asked for.
type endpoint struct{ builtIn bool }

func (e endpoint) AllowsMediaTypeTransform(_, sub string, target *schema.GroupVersionKind) bool {
	if target == nil {
		return e.builtIn || sub != "vnd.kubernetes.protobuf"
	}
	known := target.Group == metav1.GroupName && (target.Version == "v1" || target.Version == "v1beta1")
	switch target.Kind {
	case "PartialObjectMetadata", "PartialObjectMetadataList":
		return known
	}
	return known && target.Kind == "Table" && sub != "vnd.kubernetes.protobuf"
}

func (endpoint) AllowsServerVersion(string) bool { return false }

func (endpoint) AllowsStreamSchema(s string) bool { return s == "watch" }

// FuzzAccept: what is answered here is answered in the encoding that upstream's own negotiation chooses.
func FuzzAccept(f *testing.F) {
	for _, seed := range []string{
		"", "*/*", "application/json", "application/vnd.kubernetes.protobuf,application/json",
		"application/json, */*;q=0.8", "*/*, application/vnd.kubernetes.protobuf",
		"application/json;as=Table;v=v1;g=meta.k8s.io,application/json",
		"application/json; q=0.1, application/vnd.kubernetes.protobuf", "Application/JSON, application/yaml",
		"application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json",
		"application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1beta1,application/json",
		"application/json;stream=watch", "application/json,application/json;q=2;as=Table",
		"application/json, text/plain, */*", "application/json,application/yaml;q =5", "application/*,application/yaml",
		strings.Repeat("application/json,", 13) + "*/*",
	} {
		for i := range 4 {
			f.Add(seed, i&1 == 0, i&2 == 0)
		}
	}
	offered := accepted()
	f.Fuzz(func(t *testing.T, accept string, builtIn, stream bool) {
		resource := &protocol.ResourceType{
			GroupVersionResource: corev1.SchemeGroupVersion.WithResource("pods"), Kind: "Pod", Namespaced: true,
			BuiltIn: builtIn,
		}
		e, ok := negotiate(accept, resource, stream)
		if !ok {
			return // it is forwarded
		}
		want, wantOK := negotiation.NegotiateMediaTypeOptions(accept, offered, endpoint{builtIn})
		as := ""
		if want.Convert != nil {
			as = want.Convert.Kind
		}
		if media := e.ContentType(false); !wantOK || media != want.Accepted.MediaType || e.As != as || want.Pretty {
			t.Errorf("%q, built in: %v: %s as %q, want %s as %q (%v)",
				accept, builtIn, media, e.As, want.Accepted.MediaType, as, wantOK)
		}
	})
}

// FuzzContinue: a continue token is read as upstream reads it.
func FuzzContinue(f *testing.F) {
	for _, seed := range []string{
		"", "!", "e30",
		base64.RawURLEncoding.EncodeToString([]byte(`{"V":"meta.k8s.io/v1","rv":1,"start":"a","start":"b"}`)),
	} {
		f.Add(seed)
	}
	for _, start := range []string{"a/x\x00", "a", "/a", "/", "//a", "a/../b", "../b", ""} {
		for _, version := range []int64{10, 0, -1, -7} {
			f.Add(protocol.Token{ResourceVersion: version, Start: start}.String())
		}
	}
	f.Fuzz(func(t *testing.T, text string) {
		token, err := protocol.ParseToken(text)
		start, version, wantErr := storage.DecodeContinue(text, "/")
		if (err == nil) != (wantErr == nil) || err == nil && (token.ResourceVersion != version ||
			"/"+token.Start != start) {
			t.Errorf("%q: %+v, %v; upstream: %q at %d, %v", text, token, err, start, version, wantErr)
		}
	})
}

// FuzzQuery: whatever the query of a get or a list is, a replica answers as the server does.
func FuzzQuery(f *testing.F) {
	direct := &reviewer{}
	x := newReviewed(f, direct, 1, tidingstest.ServerOptions{}, Options{})
	for i := range 5 {
		x.Create(configMap(strconv.Itoa(i), []string{"a", "b"}[i%2]))
	}
	x.synced(f)
	now, err := strconv.ParseUint(x.ResourceVersion(), 10, 64)
	if err != nil {
		f.Fatal(err)
	}
	page := func(start string) string { return protocol.Token{ResourceVersion: int64(now), Start: start}.String() }
	for _, seed := range []string{
		"", "resourceVersion=0", "resourceVersion=0&resourceVersion=1", "resourceVersion=1", "resourceVersion=00",
		"resourceVersion=x", "resourceVersion=" + replica.Format(now), "resourceVersion=" + replica.Format(now) +
			"&resourceVersionMatch=Exact",
		"resourceVersion=0&resourceVersionMatch=Exact", "resourceVersionMatch=NotOlderThan&resourceVersion=0",
		"limit=2&resourceVersion=0", "limit=-1&resourceVersion=0", "resourceVersion=0&limit=%2B1",
		"resourceVersion=0;limit=1",
		"resourceVersion=0&labelSelector=half%3Da", "resourceVersion=0&labelSelector=half+in+(a",
		"resourceVersion=0&fieldSelector=metadata.name%3D1", "resourceVersion=0&fieldSelector=data%3D1",
		"limit=2&continue=" + page("2\x00"), "continue=" + page("../kube-system"), "continue=" + page("/"),
		"sendInitialEvents=true", "resourceVersion=0&watch=0", "resourceVersion=0&timeoutSeconds=x",
		"resourceVersion=0&%zz",
		"timeout=1&resourceVersion=0", "resourceVersion=0&pretty=true", "resourceVersion=0&allowWatchBookmarks=x",
		"resourceVersion=0&shardSelector=x",
	} {
		f.Add(seed, mapsPath)
		f.Add(seed, mapsPath+"/1")
		f.Add(seed, "/api/v1/configmaps")
	}
	f.Fuzz(func(t *testing.T, query, path string) {
		if path != mapsPath && path != mapsPath+"/1" && path != "/api/v1/configmaps" {
			t.Skip()
		}
		values, _ := url.ParseQuery(query) // what can be read of it
		version, _ := protocol.ParseVersion(values.Get("resourceVersion"))
		token, _ := protocol.ParseToken(values.Get("continue"))
		if max(version, uint64(max(token.ResourceVersion, 0))) > now || values.Has("watch") {
			t.Skip() // it waits
		}
		if strings.ContainsFunc(query, func(r rune) bool { return r <= ' ' || r >= 0x7f || r == '#' }) {
			t.Skip() // no client can send it
		}
		ask := func(h http.Handler) (int, string) {
			r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil)
			r.URL.RawQuery = query
			r.Header.Set("Authorization", "Bearer user")
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			return w.Code, w.Body.String()
		}
		code, body := ask(x.replicas[0].Server)
		wantCode, wantBody := ask(direct)
		if code != wantCode || body != wantBody && !sameJSON(t, body, wantBody) {
			t.Errorf("%s?%s: %d %s\nwant %d %s", path, query, code, body, wantCode, wantBody)
		}
	})
}
