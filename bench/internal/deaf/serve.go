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

// objects is how many there are. The change with version v is of object v modulo objects.
const objects = 5

// object returns the state that version v brought.
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
	case Throttled:
		out.Header().Set("Retry-After", "1")
		refuse(out, http.StatusTooManyRequests, metav1.StatusReasonTooManyRequests)
		return
	}
	query := r.URL.Query()
	if on := query.Get("watch"); on != "1" && on != "true" {
		w.serveList(out)
		return
	}
	out.Header().Set("Content-Type", server.Protobuf.ContentType())
	s := &session{world: w, out: out}
	if query.Get("sendInitialEvents") == "true" {
		s.sendInitial()
	} else if s.position, s.err = strconv.ParseUint(query.Get("resourceVersion"), 10, 64); s.err != nil {
		refuse(out, http.StatusBadRequest, metav1.StatusReasonBadRequest)
		return
	}
	s.follow(r)
}

// refuse answers as an API server does that has no better answer.
func refuse(out http.ResponseWriter, code int, reason metav1.StatusReason) {
	out.Header().Set("Content-Type", "application/json")
	out.WriteHeader(code)
	_ = json.NewEncoder(out).Encode(status(code, reason, "the server says no")) // the client may be gone
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
	position uint64 // the version up to which all has been sent
	err      error
}

func (s *session) send(kind watch.EventType, obj runtime.Object) {
	frame, err := server.Protobuf.Encode(kind, obj)
	if err != nil {
		panic(err) // what is sent here always encodes
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

// follow sends changes until the watch is cut, has lived as long as the client wanted, or the client has gone.
func (s *session) follow(r *http.Request) {
	w := s.world
	var proxy, over <-chan time.Time
	if seconds, err := strconv.Atoi(r.URL.Query().Get("timeoutSeconds")); err == nil {
		over = time.After(time.Duration(seconds) * time.Second)
	}
	if w.schedule.CutAfter > 0 {
		proxy = time.After(w.schedule.CutAfter)
	}
	w.mu.Lock()
	cut := w.cut
	expired, short := s.position+1 < w.oldest, w.fault == Short
	w.mu.Unlock()
	if expired {
		s.send(watch.Error, status(http.StatusGone, metav1.StatusReasonExpired, "too old resource version"))
		return
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
		case <-cut:
			breakOff(w.wasBroken())
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

// proxyCuts notes that the proxy cuts the informer's watch. Every other time it does not end the body in order.
func (w *world) proxyCuts() (broken bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.account()
	w.lost()
	return w.out.Faults%2 == 0
}

func (w *world) wasBroken() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.broken
}

// breakOff ends the watch that is being served without an end of its body, if it is to be broken.
func breakOff(broken bool) {
	if broken {
		panic(http.ErrAbortHandler)
	}
}
