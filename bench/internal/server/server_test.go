package server

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/tidings/tidings/bench/internal/corpus"
)

// TestFrames checks the encoding against the generated decoder and the standard library.
func TestFrames(t *testing.T) {
	for _, e := range []Encoding{Protobuf, JSON} {
		content, err := newContent(Config{Encoding: e, Corpus: corpus.Pods, Objects: 20, Burst: 10})
		if err != nil {
			t.Fatal(err)
		}
		events := 0
		for frame := range content.initial[""] {
			kind, pod := decode(t, e, frame)
			want := "ADDED"
			if events == 20 {
				want = "BOOKMARK"
			}
			if kind != want || pod.ResourceVersion == "" || (kind == "ADDED") != (pod.Spec.NodeName != "") {
				t.Errorf("%s: event %d is %s of %v", e, events, kind, pod)
			}
			events++
		}
		if events != 21 {
			t.Errorf("%s: %d initial events, want 21", e, events)
		}
	}
}

func decode(t *testing.T, e Encoding, frame []byte) (string, *corev1.Pod) {
	t.Helper()
	var event metav1.WatchEvent
	if e == JSON {
		if err := json.Unmarshal(frame, &event); err != nil {
			t.Fatal(err)
		}
	} else {
		if size := binary.BigEndian.Uint32(frame); int(size) != len(frame)-4 {
			t.Fatalf("a frame of %d bytes says %d", len(frame)-4, size)
		}
		if err := event.Unmarshal(frame[4:]); err != nil {
			t.Fatal(err)
		}
	}
	obj, _, err := scheme.Codecs.UniversalDeserializer().Decode(event.Object.Raw, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	return event.Type, obj.(*corev1.Pod)
}

// TestBurst checks that a phase changes each pod once before it changes one again, and ends with
// the version that the plan says.
func TestBurst(t *testing.T) {
	content, err := newContent(Config{Encoding: Protobuf, Corpus: corpus.Pods, Objects: 30, Burst: 25, Sustained: 70, Rate: 40})
	if err != nil {
		t.Fatal(err)
	}
	last := ""
	for _, phase := range []Phase{Burst, BurstSorted, Edits, Sustained, BurstAgain, Rate} {
		seen, events := map[string]int{}, 0
		for frame := range content.phases[phase] {
			kind, pod := decode(t, Protobuf, frame)
			key := pod.Namespace + "/" + pod.Name
			if seen[key]++; kind != "MODIFIED" || seen[key] > 1+events/30 || pod.ResourceVersion <= last {
				t.Fatalf("%s: %s of %s at %s for the %d. time, after %s", phase, kind, key, pod.ResourceVersion, seen[key], last)
			}
			last = pod.ResourceVersion
			events++
		}
		if want := map[Phase]int{Sustained: 70, Rate: 40}[phase]; events != max(want, 25) || last != fmt.Sprint(content.plan.Last[phase]) {
			t.Errorf("%s: %d events up to version %s, want %d up to %d", phase, events, last, max(want, 25), content.plan.Last[phase])
		}
	}
}

// TestChurnIsConsistent plays a churn on a map: no pod is created twice, changed before or deleted after its life.
func TestChurnIsConsistent(t *testing.T) {
	const size = 300
	events, last := churn(Protobuf, 8*size*eventsPerPod, size)
	alive, most, version := map[string]bool{}, 0, uint64(0)
	for frame := range events {
		kind, pod := decode(t, Protobuf, frame)
		key := pod.Namespace + "/" + pod.Name
		if alive[key] == (kind == "ADDED") {
			t.Fatalf("%s of %s, which exists: %v", kind, key, alive[key])
		}
		if alive[key] = true; kind == "DELETED" {
			delete(alive, key)
		}
		most, version = max(most, len(alive)), mustVersion(t, pod)
	}
	want := (generations + 1) * size
	if most > want || most < want-10 || len(alive) != 1 || version != last {
		t.Errorf("at most %d alive, %d at the end, at version %d; want %d, 1, %d", most, len(alive), version, want, last)
	}
}

func mustVersion(t *testing.T, pod *corev1.Pod) (version uint64) {
	t.Helper()
	if err := json.Unmarshal([]byte(pod.ResourceVersion), &version); err != nil {
		t.Fatal(err)
	}
	return version
}

func TestRefusals(t *testing.T) {
	handler, err := New(Config{Encoding: Protobuf, Corpus: corpus.Pods, Objects: 5, Burst: 5})
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(handler)
	defer s.Close()
	for path, want := range map[string]int{
		"/bench/phase/unknown": http.StatusNotFound,
		"/bench/phase/burst":   http.StatusConflict, // nobody watches
	} {
		response, err := http.Post(s.URL+path, "", nil)
		if err != nil {
			t.Fatal(err)
		}
		if response.Body.Close(); response.StatusCode != want {
			t.Errorf("%s: %s, want %d", path, response.Status, want)
		}
	}
	response, err := http.Get(s.URL + "/api/v1/pods")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusNotImplemented || !strings.Contains(string(bytes.TrimSpace(body)), "no lists") {
		t.Errorf("a list: %s %s %v", response.Status, body, err)
	}
}

// TestListen asks for the plan on both ports: with TLS, which comes with HTTP/2, and without.
func TestListen(t *testing.T) {
	handler, err := New(Config{Encoding: Protobuf, Corpus: corpus.Leases, Objects: 6, Parts: 3})
	if err != nil {
		t.Fatal(err)
	}
	running, err := Listen(handler)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(running.Address.CA) {
		t.Fatal("the authority's certificate is not in PEM")
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}, ForceAttemptHTTP2: true}
	for host, major := range map[string]int{running.Address.Host: 2, running.Address.Plain: 1} {
		response, err := (&http.Client{Transport: transport}).Get(host + "/bench/plan")
		if err != nil {
			t.Fatal(err)
		}
		var plan Plan
		err = json.NewDecoder(response.Body).Decode(&plan)
		if _ = response.Body.Close(); err != nil || plan.Objects != 6 || plan.Parts != 3 || response.ProtoMajor != major {
			t.Errorf("%s: %s gave %+v, %v", host, response.Proto, plan, err)
		}
	}
	transport.CloseIdleConnections()
	if err := running.Close(); err != nil {
		t.Error(err)
	}
}

// TestDay plays a day twice on a map: it has as many pods each hour as it should, ends each with
// the version that the plan says, and is the same both times.
func TestDay(t *testing.T) {
	const night = 100
	content, err := newContent(Config{Encoding: Protobuf, Corpus: corpus.Pods, Objects: night, Day: 240})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		alive := map[string]bool{}
		for frame := range content.initial[""] {
			if kind, pod := decode(t, Protobuf, frame); kind == "ADDED" {
				alive[pod.Namespace+"/"+pod.Name] = true
			}
		}
		for i := range DaySteps {
			events, last, kind := 0, uint64(0), ""
			for frame := range content.phases[DayStep(i)] {
				var pod *corev1.Pod
				kind, pod = decode(t, Protobuf, frame)
				key := pod.Namespace + "/" + pod.Name
				if alive[key] == (kind == "ADDED") {
					t.Fatalf("hour %d: %s of %s, which exists: %t", i, kind, key, alive[key])
				}
				if alive[key] = true; kind == "DELETED" {
					delete(alive, key)
				}
				events++
				last = mustVersion(t, pod)
			}
			if want := PodsAt(night, i+1); len(alive) != want {
				t.Errorf("hour %d: %d pods, want %d", i, len(alive), want)
			}
			if plan := content.plan; events != plan.Events[DayStep(i)] || last != plan.Last[DayStep(i)] || kind != "MODIFIED" {
				t.Errorf("hour %d: %d events up to %s at %d, want %d up to %d", i, events, kind, last, plan.Events[DayStep(i)], plan.Last[DayStep(i)])
			}
		}
		if len(alive) != night {
			t.Errorf("%d pods at midnight, want %d", len(alive), night)
		}
	}
}

// TestNewest asks for the object that was changed last, in both encodings, and for one that was not.
func TestNewest(t *testing.T) {
	for _, e := range []Encoding{Protobuf, JSON} {
		handler, err := New(Config{Encoding: e, Corpus: corpus.Pods, Objects: 50, Burst: 50}) // the events do not count
		if err != nil {
			t.Fatal(err)
		}
		objects, err := corpus.Pods.Make(50)
		if err != nil {
			t.Fatal(err)
		}
		newest := objects[0].(*corev1.Pod)
		for _, obj := range objects {
			if pod := obj.(*corev1.Pod); mustVersion(t, pod) > mustVersion(t, newest) {
				newest = pod
			}
		}
		ask := func(selector string) (int, []byte) {
			w := httptest.NewRecorder()
			handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/api/v1/pods?fieldSelector="+url.QueryEscape(selector), nil))
			return w.Code, w.Body.Bytes()
		}
		code, body := ask("metadata.name=" + newest.Name + ",metadata.namespace=" + newest.Namespace)
		list, _, err := scheme.Codecs.UniversalDeserializer().Decode(body, nil, nil)
		if err != nil || code != http.StatusOK {
			t.Fatalf("%s: %d, %v", e, code, err)
		}
		pods := list.(*corev1.PodList)
		if len(pods.Items) != 1 || pods.Items[0].UID != newest.UID || pods.Items[0].ResourceVersion != newest.ResourceVersion || pods.ResourceVersion != fmt.Sprint(firstVersion) {
			t.Errorf("%s: got %v", e, pods)
		}
		if code, body := ask("metadata.name=other"); code != http.StatusNotImplemented {
			t.Errorf("%s: another one is %d %s", e, code, body)
		}
	}
}

// TestIdleWatchGetsBookmarks reads a part of a divided corpus to the first bookmark behind its initial events.
func TestIdleWatchGetsBookmarks(t *testing.T) {
	handler, err := New(Config{Encoding: JSON, Corpus: corpus.Leases, Objects: 6, Parts: 3})
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(handler)
	defer s.Close()
	response, err := http.Get(s.URL + corpus.Leases.Kind().Path(corpus.Part(1)) + "?watch=1&sendInitialEvents=true")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	var types []string
	for lines := json.NewDecoder(response.Body); len(types) < 4; {
		var event metav1.WatchEvent
		if err := lines.Decode(&event); err != nil {
			t.Fatal(err)
		}
		types = append(types, event.Type)
	}
	if got := strings.Join(types, " "); got != "ADDED ADDED BOOKMARK BOOKMARK" {
		t.Errorf("got %s", got)
	}
}
