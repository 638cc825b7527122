package protocol

import (
	"bytes"
	"context"
	"errors"
	"net/url"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/tidings/tidings/object"
)

var podType = &ResourceType{
	GroupVersionResource: corev1.SchemeGroupVersion.WithResource("pods"), Kind: "Pod", Namespaced: true, BuiltIn: true,
}

// fixed is a storage of three pods at version 10, without history.
type fixed struct{ entries []Entry }

func newFixed() fixed {
	var f fixed
	for _, path := range []string{"a-b/x", "a/x", "a/y"} { // the order of paths, which is not that of namespaces
		namespace, name, _ := strings.Cut(path, "/")
		f.entries = append(f.entries, Entry{path, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: name, ResourceVersion: "9", Labels: map[string]string{"app": name},
		}}})
	}
	return f
}

func (f fixed) Version() uint64                            { return 10 }
func (f fixed) Oldest() uint64                             { return 10 }
func (f fixed) MostRecent(context.Context) (uint64, error) { return 10, nil }
func (f fixed) After(uint64) Tail                          { return Tail{Version: 10} }
func (f fixed) Get(key object.Key) (object.Object, error)  { return nil, nil }
func (f fixed) Reach(_ context.Context, version uint64) error {
	if version > 10 {
		return TooLarge(version, 10)
	}
	return nil
}

func (f fixed) List(version uint64) (List, error) {
	if version < 10 {
		return nil, ErrCompacted
	}
	return Entries(f.entries), nil
}

// FuzzListPage lists with any query. The answer is a page of what matches, or an error with a status code of a client's error or a
// timeout.
func FuzzListPage(f *testing.F) {
	for _, seed := range []string{
		"", "limit=1", "limit=-1", "resourceVersion=0", "resourceVersion=11", "resourceVersion=9&resourceVersionMatch=Exact",
		"limit=1&continue=" + Token{10, "a/x\x00"}.String(), "continue=" + Token{-1, "a"}.String(), "continue=%00", "labelSelector=app%3Dx",
		"fieldSelector=spec.nodeName%3Dx,metadata.name!%3Dy", "fieldSelector=a", "labelSelector=a+in+(b", "timeoutSeconds=x",
		"sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true",
	} {
		f.Add(seed, "")
		f.Add(seed, "a")
	}
	f.Fuzz(func(t *testing.T, query, namespace string) {
		values, err := url.ParseQuery(query)
		if err != nil || strings.Contains(namespace, "/") {
			t.Skip()
		}
		selection, err := NewSelection(podType, Target{Namespace: namespace}, values, false, false)
		var page Page
		if err == nil {
			page, err = ListPage(t.Context(), newFixed(), selection)
		}
		if err != nil {
			status := apierrors.APIStatus(nil)
			if !errors.As(err, &status) || status.Status().Code < 400 || status.Status().Code > 504 {
				t.Errorf("%q: %v", query, err)
			}
			return
		}
		for _, o := range page.Items {
			if !selection.Matches(o) || namespace != "" && o.GetNamespace() != namespace {
				t.Errorf("%q: %v does not match", query, object.KeyOf(o))
			}
		}
		if limit := selection.Options.Limit; limit > 0 && int64(len(page.Items)) > limit {
			t.Errorf("%q: %d items", query, len(page.Items))
		}
	})
}

// TestPagesAreComplete reads page by page, in all namespaces and in one.
func TestPagesAreComplete(t *testing.T) {
	for namespace, want := range map[string]string{"": "a-b/x a/x a/y", "a": "a/x a/y"} {
		var got []string
		next := ""
		for {
			selection, err := NewSelection(podType, Target{Namespace: namespace}, url.Values{"limit": {"1"}, "continue": {next}}, false, false)
			if err != nil {
				t.Fatal(err)
			}
			page, err := ListPage(t.Context(), newFixed(), selection)
			if err != nil {
				t.Fatal(err)
			}
			for _, o := range page.Items {
				got = append(got, object.KeyOf(o).String())
			}
			if next = page.Continue; next == "" {
				break
			}
		}
		if strings.Join(got, " ") != want {
			t.Errorf("namespace %q: %v, want %s", namespace, got, want)
		}
	}
}

func FuzzToken(f *testing.F) {
	f.Add(Token{10, "a/x\x00"}.String())
	f.Add("eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MSwic3RhcnQiOiIuLi9hIn0")
	f.Fuzz(func(t *testing.T, text string) {
		token, err := ParseToken(text)
		if err != nil || token.Start == "" { // that of "/" begins at the beginning
			return
		}
		if again, err := ParseToken(token.String()); err != nil || again != token {
			t.Errorf("%+v becomes %+v, %v", token, again, err)
		}
		if strings.HasPrefix(token.Start, "/") || strings.Contains("/"+token.Start+"/", "/../") {
			t.Errorf("accepted %+v", token)
		}
	})
}

func FuzzNegotiate(f *testing.F) {
	for _, seed := range []string{
		"", "*/*", "application/json;as=Table;g=meta.k8s.io;v=v1,application/json", "application/vnd.kubernetes.protobuf;q=0.1",
		"application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1", "text/plain", ";;,=",
	} {
		f.Add(seed, false)
		f.Add(seed, true)
	}
	f.Fuzz(func(t *testing.T, accept string, stream bool) {
		e, err := Negotiate(accept, podType, stream)
		if err != nil {
			return
		}
		var b bytes.Buffer
		if err := e.WriteList(&b, []runtime.Object{newFixed().entries[0].Object}, metav1.ListMeta{}); err != nil {
			t.Errorf("%q: %v", accept, err)
		}
		if stream && e.Media == YAML || e.As != "" && !e.Partial {
			t.Errorf("%q: %+v", accept, e)
		}
	})
}
