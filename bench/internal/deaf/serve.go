package deaf

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/tidings/tidings/bench/internal/server"
)

// freshPatience is how long a request waits for a version that does not exist yet.
const freshPatience = 3 * time.Second

// objects is the number of objects. The change with version v is of object v modulo objects.
const objects = 5

// object returns the state as of the change with version v.
func object(v uint64) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: fmt.Sprint("object-", v%objects), UID: types.UID(fmt.Sprint("uid-", v%objects)), ResourceVersion: strconv.FormatUint(v, 10),
		},
		Data: map[string]string{"version": strconv.FormatUint(v, 10)},
	}
}

// latest returns the versions of all objects as of version v.
func latest(v uint64) []uint64 {
	out := make([]uint64, objects)
	for i := range out {
		out[i] = v - objects + 1 + uint64(i)
	}
	return out
}

func (w *world) serve(out http.ResponseWriter, r *http.Request) {
	w.mu.Lock()
	fault := w.fault
	w.mu.Unlock()
	switch fault {
	case Unavailable:
		refuse(out, http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable)
		return
	case Internal:
		refuse(out, http.StatusInternalServerError, metav1.StatusReasonInternalError)
		return
	case Unauthorized:
		refuse(out, http.StatusUnauthorized, metav1.StatusReasonUnauthorized)
		return
	case Forbidden:
		refuse(out, http.StatusForbidden, metav1.StatusReasonForbidden)
		return
	case Gateway:
		out.Header().Set("Content-Type", "text/html")
		out.WriteHeader(http.StatusBadGateway)
		_, _ = out.Write([]byte("<html>bad gateway</html>")) // the client may be gone
		return
	case Throttled:
		out.Header().Set("Retry-After", "1")
		refuse(out, http.StatusTooManyRequests, metav1.StatusReasonTooManyRequests)
		return
	}
	query := r.URL.Query()
	on := query.Get("watch")
	if w.herd != nil {
		w.herd.asked((on == "1" || on == "true") && query.Get("sendInitialEvents") != "true")
		if !w.herd.admit() {
			out.Header().Set("Retry-After", "1")
			refuse(out, http.StatusTooManyRequests, metav1.StatusReasonTooManyRequests)
			return
		}
		out = herdWriter{out, w.herd}
	}
	if on != "1" && on != "true" {
		if w.reached(out, r) {
			w.serveList(out)
		}
		return
	}
	s := &session{world: w, out: out}
	if query.Get("sendInitialEvents") == "true" {
		if !w.reached(out, r) {
			return
		}
		out.Header().Set("Content-Type", server.Protobuf.ContentType())
		s.sendInitial()
	} else if s.position, s.err = strconv.ParseUint(query.Get("resourceVersion"), 10, 64); s.err != nil {
		refuse(out, http.StatusBadRequest, metav1.StatusReasonBadRequest)
		return
	}
	out.Header().Set("Content-Type", server.Protobuf.ContentType())
	s.follow(r)
}

// refuse responds with an error as an API server does.
func refuse(out http.ResponseWriter, code int, reason metav1.StatusReason) {
	answer(out, status(code, reason, "the server says no"))
}

func answer(out http.ResponseWriter, status *metav1.Status) {
	out.Header().Set("Content-Type", "application/json")
	out.WriteHeader(int(status.Code))
	_ = json.NewEncoder(out).Encode(status) // the client may be gone
}

func status(code int, reason metav1.StatusReason, message string) *metav1.Status {
	return &metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"},
		Status:   metav1.StatusFailure, Code: int32(code), Reason: reason, Message: message,
	}
}

func (w *world) serveList(out http.ResponseWriter) {
	w.mu.Lock()
	version := w.version
	w.mu.Unlock()
	list := &corev1.ConfigMapList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMapList"}}
	list.ResourceVersion = strconv.FormatUint(version, 10)
	for _, v := range latest(version) {
		list.Items = append(list.Items, *object(v))
	}
	var body bytes.Buffer
	if err := protobuf.NewSerializer(nil, nil).Encode(list, &body); err != nil {
		panic(err) // config maps always encode
	}
	out.Header().Set("Content-Type", runtime.ContentTypeProtobuf)
	_, _ = out.Write(body.Bytes()) // the client may be gone
}

// session is one watch.
type session struct {
	world    *world
	out      http.ResponseWriter
	position uint64 // version up to which everything has been sent
	err      error
}

func (s *session) send(kind watch.EventType, obj runtime.Object) {
	frame, err := server.Protobuf.Encode(kind, obj)
	if err != nil {
		panic(err) // everything sent here can be encoded
	}
	if s.err == nil {
		_, s.err = s.out.Write(frame)
	}
}

func (s *session) flush() {
	if s.err == nil {
		s.err = http.NewResponseController(s.out).Flush()
	}
}

func (s *session) sendInitial() {
	s.world.mu.Lock()
	s.position = s.world.version
	s.world.mu.Unlock()
	for _, v := range latest(s.position) {
		s.send(watch.Added, object(v))
	}
	s.send(watch.Bookmark, &corev1.ConfigMap{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: metav1.ObjectMeta{
			ResourceVersion: strconv.FormatUint(s.position, 10), Annotations: map[string]string{metav1.InitialEventsAnnotationKey: "true"},
		},
	})
}

// follow sends changes until the watch is cut, its timeout has passed, or the client has gone.
func (s *session) follow(r *http.Request) {
	w := s.world
	var proxy, over <-chan time.Time
	if seconds, err := strconv.Atoi(r.URL.Query().Get("timeoutSeconds")); err == nil {
		over = time.After(time.Duration(seconds) * time.Second)
	}
	if w.schedule.CutAfter > 0 {
		proxy = time.After(w.schedule.CutAfter)
	}
	bookmarks := time.NewTicker(bookmarkEvery)
	defer bookmarks.Stop()
	w.mu.Lock()
	cut := w.cut
	expired, short := s.position+1 < w.oldest, w.fault == Short
	w.mu.Unlock()
	if expired {
		s.send(watch.Error, status(http.StatusGone, metav1.StatusReasonExpired, "too old resource version"))
		return
	}
	if w.herd != nil {
		w.herd.opened(1)
		defer w.herd.opened(-1)
	}
	for s.flush(); !short && s.err == nil; s.flush() {
		w.mu.Lock()
		version, changed := w.version, w.changed
		w.mu.Unlock()
		if s.position < version {
			s.position++
			s.send(watch.Modified, object(s.position))
			continue
		}
		select {
		case <-changed:
		case <-bookmarks.C:
			if s.position <= version { // otherwise the watch waits for a version of an abandoned history
				s.bookmark()
			}
		case <-cut:
			s.cut(r)
			return
		case <-proxy:
			breakOff(w.proxyCuts())
			return
		case <-over:
			return
		case <-r.Context().Done():
			return
		}
	}
}

// cut ends a watch as the fault that has just begun demands.
func (s *session) cut(r *http.Request) {
	switch s.world.kindOfCut() {
	case Silent:
		<-r.Context().Done()
	case Garbled:
		_, s.err = s.out.Write([]byte("\x00\x00\x00\x09garbage!!"))
		s.flush()
	case Cut, Expired:
	default:
		breakOff(true)
	}
}

// bookmark sends a bookmark with the version up to which everything has been sent.
func (s *session) bookmark() {
	s.send(watch.Bookmark, &corev1.ConfigMap{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: metav1.ObjectMeta{ResourceVersion: strconv.FormatUint(s.position, 10)},
	})
}

// proxyCuts records that the proxy cuts the informer's watch. Every other time the connection is broken instead of
// the body ending.
func (w *world) proxyCuts() (broken bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.account()
	w.lost()
	return w.out.Faults%2 == 0
}

func (w *world) kindOfCut() Kind {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.cutBy
}

// reached waits for a version that does not exist yet, as API servers do, and rejects the request if it does not
// appear in time.
func (w *world) reached(out http.ResponseWriter, r *http.Request) bool {
	wanted, err := strconv.ParseUint(r.URL.Query().Get("resourceVersion"), 10, 64)
	if err != nil {
		return true // any version will do
	}
	patience := time.After(freshPatience)
	for {
		w.mu.Lock()
		version, changed := w.version, w.changed
		w.mu.Unlock()
		if wanted <= version {
			return true
		}
		select {
		case <-changed:
		case <-patience:
			tooLarge := status(http.StatusGatewayTimeout, metav1.StatusReasonTimeout, "Too large resource version")
			tooLarge.Details = &metav1.StatusDetails{RetryAfterSeconds: 1, Causes: []metav1.StatusCause{{Type: metav1.CauseTypeResourceVersionTooLarge, Message: "Too large resource version"}}}
			answer(out, tooLarge)
			return false
		case <-r.Context().Done():
			return false
		}
	}
}

// breakOff breaks the connection of the current watch if broken is set.
func breakOff(broken bool) {
	if broken {
		panic(http.ErrAbortHandler)
	}
}
