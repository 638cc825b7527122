package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/tidings/tidings/internal/protocol"
	"github.com/tidings/tidings/internal/wire/wiretest"
)

// flying is an API server with nothing but pods, which it makes while it sends them, so that there may be more than fit
// into its memory. Everybody may read everything.
type flying struct {
	pods    int
	address string
	server  *http.Server
	serving sync.WaitGroup
	err     error // of serving

	mu        sync.Mutex
	last      []runtime.Object // the chunk that pages were last made from; lastBegin is its first pod
	lastBegin int
}

const (
	// chunk is the number of pods that are made together, as those of one cluster.
	chunk = 5_000
	// flyingVersion is the version of the list; those of its pods are lower.
	flyingVersion = 100_000_000
	// flyingBookmarks is how often a watch gets a bookmark.
	flyingBookmarks = time.Second
)

// podEncoding is that of watches.
var podEncoding = protocol.Encoding{Media: protocol.Protobuf, Resource: &protocol.ResourceType{
	GroupVersionResource: corev1.SchemeGroupVersion.WithResource("pods"), Kind: "Pod", Namespaced: true, BuiltIn: true,
}}

// listenFlying starts a server with n pods.
func listenFlying(n int) (*flying, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	f := &flying{pods: n, address: "http://" + l.Addr().String()}
	f.server = &http.Server{Handler: f, ReadHeaderTimeout: 10 * time.Second}
	f.serving.Go(func() { f.err = f.server.Serve(l) })
	return f, nil
}

// close ends the server, and all requests.
func (f *flying) close() error {
	_ = f.server.Close() // the error of Serve says more
	f.serving.Wait()
	if errors.Is(f.err, http.ErrServerClosed) {
		return nil
	}
	return f.err
}

func (f *flying) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch query := r.URL.Query(); {
	case r.URL.Path == "/api":
		reply(w, &metav1.APIVersions{TypeMeta: metav1.TypeMeta{Kind: "APIVersions"}, Versions: []string{"v1"}})
	case r.URL.Path == "/apis":
		reply(w, &metav1.APIGroupList{TypeMeta: metav1.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"}})
	case r.URL.Path == "/api/v1":
		reply(w, &metav1.APIResourceList{
			TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}, GroupVersion: "v1",
			APIResources: []metav1.APIResource{{
				Name: "pods", SingularName: "pod", Namespaced: true, Kind: "Pod",
				Verbs: metav1.Verbs{"get", "list", "watch"},
			}},
		})
	case strings.HasSuffix(r.URL.Path, "reviews"):
		review(w, r)
	case r.URL.Path != path:
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusNotFound)
		reply(w, protocol.StatusOf(apierrors.NewNotFound(corev1.Resource("any"), "any")))
	case query.Get("watch") == "true" || query.Get("watch") == "1":
		f.watch(w, r)
	default:
		f.list(w, query)
	}
}

// list sends a page of at most a chunk. Its continue token is the number of the next pod.
func (f *flying) list(w http.ResponseWriter, query url.Values) {
	limit, _ := strconv.Atoi(query.Get("limit"))
	first, err := strconv.Atoi(cmp.Or(query.Get("continue"), "0"))
	if err != nil || first < 0 || first >= f.pods {
		http.Error(w, "no continue token of this server", http.StatusBadRequest)
		return
	}
	items := f.from(first)
	if limit > 0 && limit < len(items) {
		items = items[:limit]
	}
	list := metav1.ListMeta{ResourceVersion: fmt.Sprint(flyingVersion)}
	if next := first + len(items); next < f.pods {
		list.Continue = strconv.Itoa(next)
	}
	w.Header().Set("Content-Type", protobuf)
	_ = podEncoding.WriteList(w, items, list) // the client has gone
}

// from returns the pods of a chunk from the given one on. Pages are smaller than chunks, so the last one is kept.
func (f *flying) from(first int) []runtime.Object {
	f.mu.Lock()
	defer f.mu.Unlock()
	begin := first - first%chunk
	if f.last == nil || f.lastBegin != begin {
		f.last, f.lastBegin = nil, begin
		for _, pod := range makeChunk(begin, f.pods) {
			f.last = append(f.last, pod)
		}
	}
	return f.last[first-begin:]
}

func reply(w http.ResponseWriter, o any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(o) // the client has gone
}

// review allows everything.
func review(w http.ResponseWriter, r *http.Request) {
	var answer any
	switch {
	case strings.HasSuffix(r.URL.Path, "/tokenreviews"):
		user := authenticationv1.UserInfo{Username: "reader"}
		answer = &authenticationv1.TokenReview{
			TypeMeta: metav1.TypeMeta{Kind: "TokenReview", APIVersion: "authentication.k8s.io/v1"},
			Status:   authenticationv1.TokenReviewStatus{Authenticated: true, User: user},
		}
	case strings.HasSuffix(r.URL.Path, "/selfsubjectaccessreviews"):
		answer = &authorizationv1.SelfSubjectAccessReview{
			TypeMeta: metav1.TypeMeta{Kind: "SelfSubjectAccessReview", APIVersion: "authorization.k8s.io/v1"},
			Status:   authorizationv1.SubjectAccessReviewStatus{Allowed: true},
		}
	default:
		answer = &authorizationv1.SubjectAccessReview{
			TypeMeta: metav1.TypeMeta{Kind: "SubjectAccessReview", APIVersion: "authorization.k8s.io/v1"},
			Status:   authorizationv1.SubjectAccessReviewStatus{Allowed: true},
		}
	}
	_, _ = io.Copy(io.Discard, r.Body) // what it asks does not matter
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusCreated)
	_ = json.NewEncoder(w).Encode(answer) // the client has gone
}

// watch sends all pods if they are asked for, and then bookmarks.
func (f *flying) watch(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", podEncoding.ContentType(true))
	send := func(t watch.EventType, pod *corev1.Pod) bool {
		frame, err := podEncoding.Event(t, pod)
		if err == nil {
			_, err = w.Write(frame)
		}
		return err == nil
	}
	bookmark := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{ResourceVersion: fmt.Sprint(flyingVersion)}}
	if r.URL.Query().Get("sendInitialEvents") == "true" {
		for first := 0; first < f.pods; first += chunk {
			for _, pod := range makeChunk(first, f.pods) {
				if !send(watch.Added, pod) {
					return
				}
			}
		}
		end := bookmark.DeepCopy()
		end.Annotations = map[string]string{metav1.InitialEventsAnnotationKey: "true"}
		send(watch.Bookmark, end)
	}
	tick := time.NewTicker(flyingBookmarks)
	defer tick.Stop()
	for http.NewResponseController(w).Flush() == nil {
		select {
		case <-tick.C:
			send(watch.Bookmark, bookmark)
		case <-r.Context().Done():
			return
		}
	}
}

// makeChunk returns the pods from first on, of n, with unique names.
func makeChunk(first, n int) []*corev1.Pod {
	pods := wiretest.Pods(min(chunk, n-first), uint64(first+1))
	for i, pod := range pods {
		pod.Name = fmt.Sprintf("%s-%d", pod.Name, first+i)
	}
	return pods
}
