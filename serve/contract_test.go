package serve

import (
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"

	"github.com/tidings/tidings/tidingstest"
)

// TestPagesStayOnOneSnapshot reads page by page while objects change: all pages are of the version of the first.
func TestPagesStayOnOneSnapshot(t *testing.T) {
	f := newFixture(t, 2, tidingstest.ServerOptions{}, Options{})
	for i := range 6 {
		f.Create(configMap(fmt.Sprint(i), "a"))
	}
	f.synced(t)
	version := f.ResourceVersion()
	var names []string
	options := metav1.ListOptions{Limit: 2, ResourceVersion: version}
	for page := 0; ; page++ {
		before := f.replicas[page%2].counts.answered.Load()
		list, err := f.maps(page%2).List(t.Context(), options) // a token of one replica is understood by the other
		if err != nil {
			t.Fatal(err)
		}
		if n := f.replicas[page%2].counts.answered.Load() - before; n != 1 {
			t.Errorf("page %d is not from memory", page)
		}
		for _, o := range list.Items {
			names = append(names, o.Name+o.Labels["half"])
		}
		if list.ResourceVersion != version {
			t.Errorf("page %d is of version %s, not %s", page, list.ResourceVersion, version)
		}
		if list.Continue == "" {
			break
		}
		f.Delete(configMap(fmt.Sprint(5-page), "a"))
		f.Update(configMap(fmt.Sprint(page), "b"))
		f.synced(t)
		options = metav1.ListOptions{Limit: 2, Continue: list.Continue}
	}
	if got := strings.Join(names, " "); got != "0a 1a 2a 3a 4a 5a" {
		t.Errorf("read %s", got)
	}
}

// TestVersionsFromElsewhere: changes of other resources raise the API server's version, of which a replica hears
// nothing. A client that brings such a version, or a continue token of it, is answered all the same.
func TestVersionsFromElsewhere(t *testing.T) {
	f := newFixture(t, 1, tidingstest.ServerOptions{}, Options{})
	for i := range 5 {
		f.Create(configMap(fmt.Sprint(i), "a"))
	}
	f.synced(t)
	f.Create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "raises"}})
	first, err := f.maps(-1).List(t.Context(), metav1.ListOptions{Limit: 2})
	if err != nil {
		t.Fatal(err)
	}
	forwarded := f.replicas[0].counts.forwarded.Load()
	second, err := f.maps(0).List(t.Context(), metav1.ListOptions{Limit: 2, Continue: first.Continue})
	if err != nil || len(second.Items) != 2 || second.Items[0].Name != "2" ||
		second.ResourceVersion != first.ResourceVersion {
		t.Errorf("the second page: %v, %v", second, err)
	}
	if n := f.replicas[0].counts.forwarded.Load() - forwarded; n != 1 {
		t.Errorf("%d requests were forwarded", n)
	}
	all, err := f.maps(0).List(t.Context(), metav1.ListOptions{ResourceVersion: first.ResourceVersion})
	if err != nil || len(all.Items) != 5 || all.ResourceVersion != first.ResourceVersion {
		t.Errorf("not older than %s: %v, %v", first.ResourceVersion, all, err)
	}
	if n := f.replicas[0].counts.forwarded.Load() - forwarded; n != 1 {
		t.Error("the list is not from memory")
	}
}

// TestVersionsWithoutProof: a server without a cache of a resource, as of events, sends its watches no bookmarks, so
// that nothing proves that the replica lacks nothing. A version that the server has is forwarded, at once, and not
// refused.
func TestVersionsWithoutProof(t *testing.T) {
	f := newFixture(t, 1, tidingstest.ServerOptions{}, Options{})
	f.Create(configMap("x", "a"))
	f.synced(t)
	r := f.replicas[0]
	r.resources[0].Found().StopLookingAhead()
	version := f.Create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "raises"}})
	user, path := r.config(as(f.config, "user")), "?resourceVersion="+version
	for _, path := range []string{mapsPath + path, mapsPath + "/x" + path, mapsPath + path + "&limit=1"} {
		before := r.counts.forwarded.Load()
		if code, body := answerTo(t, user, path, nil); code != http.StatusOK {
			t.Errorf("%s: %d %s", path, code, body)
		}
		if r.counts.forwarded.Load() == before {
			t.Errorf("%s is not forwarded", path)
		}
	}
	code, body := answerTo(t, user, mapsPath+"?resourceVersion="+version+"0", nil)
	if code != http.StatusGatewayTimeout {
		t.Errorf("a version that the server does not have: %d %s", code, body)
	}
}

// TestExactVersions lists past states that the journal has from memory, and forwards others.
func TestExactVersions(t *testing.T) {
	f := newFixture(t, 1, tidingstest.ServerOptions{}, Options{})
	f.synced(t)
	r := f.replicas[0]
	first := f.Create(configMap("x", "a"))
	f.Update(configMap("x", "b"))
	f.Delete(configMap("x", "b"))
	f.synced(t)
	before := r.counts.answered.Load()
	exactly := metav1.ListOptions{ResourceVersion: first, ResourceVersionMatch: metav1.ResourceVersionMatchExact}
	list, err := f.maps(0).List(t.Context(), exactly)
	if err != nil || list.ResourceVersion != first || len(list.Items) != 1 || list.Items[0].Labels["half"] != "a" {
		t.Errorf("%v, %v", list, err)
	}
	if n := r.counts.answered.Load() - before; n != 1 {
		t.Error("it is not from memory")
	}
	r.resources[0].Collection.LimitJournal(0)
	forwarded := r.counts.forwarded.Load()
	_, err = f.maps(0).List(t.Context(), exactly)
	if n := r.counts.forwarded.Load() - forwarded; n != 1 {
		t.Errorf("%d requests were forwarded; %v", n, err)
	}
}

// TestBookmarks: a watch that nothing happens to gets bookmarks with the version that the replica has reached.
func TestBookmarks(t *testing.T) {
	f := newFixture(t, 1, tidingstest.ServerOptions{}, Options{BookmarkInterval: 20 * time.Millisecond})
	f.Create(configMap("x", "a"))
	f.synced(t)
	w, err := f.maps(0).Watch(t.Context(), metav1.ListOptions{
		ResourceVersion: f.ResourceVersion(), AllowWatchBookmarks: true, LabelSelector: "half=none",
	})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	version := f.Update(configMap("x", "b"))
	timeout := time.After(20 * time.Second)
	for {
		select {
		case e := <-w.ResultChan():
			o, ok := e.Object.(*corev1.ConfigMap)
			if !ok || e.Type != watch.Bookmark {
				t.Fatalf("got %v", e)
			}
			if o.ResourceVersion == version {
				return
			}
		case <-timeout:
			t.Fatal("no bookmark of the last version")
		}
	}
}

// TestGzip compresses large answers for clients that accept it, and no others.
func TestGzip(t *testing.T) {
	f := newFixture(t, 1, tidingstest.ServerOptions{}, Options{})
	big := configMap("x", "a")
	big.Data = map[string]string{"text": strings.Repeat("long ", gzipFrom/4)}
	f.Create(big)
	f.Create(configMap("y", "a"))
	f.synced(t)
	config := f.replicas[0].config(as(f.config, "user"))
	config.DisableCompression = true // net/http would decompress by itself
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	get := func(path, encoding string) (*http.Response, string) {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, config.Host+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Accept-Encoding", encoding)
		response, err := client.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		in := io.Reader(response.Body)
		if response.Header.Get("Content-Encoding") == "gzip" {
			if in, err = gzip.NewReader(in); err != nil {
				t.Fatal(err)
			}
		}
		text, err := io.ReadAll(in)
		if err != nil {
			t.Fatal(err)
		}
		return response, string(text)
	}
	const cached = "?resourceVersion=0"
	for path, want := range map[string]string{mapsPath + cached: "gzip", mapsPath + "/y" + cached: ""} {
		_, plain := get(path, "identity")
		response, text := get(path, "gzip")
		if got := response.Header.Get("Content-Encoding"); got != want || text != plain || plain == "" {
			t.Errorf("%s: encoded as %q, want %q; equal: %v", path, got, want, text == plain)
		}
	}
}
