package server

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
)

// TestFrames checks the encoding against the generated decoder and the standard library.
func TestFrames(t *testing.T) {
	for _, e := range []Encoding{Protobuf, JSON} {
		corpus, err := newCorpus(Config{Encoding: e, Pods: 20, Burst: 10})
		if err != nil {
			t.Fatal(err)
		}
		events := 0
		for frame := range corpus.initial.all() {
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

// TestBurst checks that a phase changes each pod once and ends with the version that the plan says.
func TestBurst(t *testing.T) {
	corpus, err := newCorpus(Config{Encoding: Protobuf, Pods: 30, Burst: 25, Rate: 5})
	if err != nil {
		t.Fatal(err)
	}
	for _, phase := range []Phase{Burst, BurstSorted, Rate, BurstAgain} {
		seen, last := map[string]bool{}, ""
		for frame := range corpus.phases[phase] {
			kind, pod := decode(t, Protobuf, frame)
			if kind != "MODIFIED" || seen[pod.Namespace+"/"+pod.Name] || pod.ResourceVersion <= last {
				t.Fatalf("%s: %s of %s/%s at %s, after %s", phase, kind, pod.Namespace, pod.Name, pod.ResourceVersion, last)
			}
			seen[pod.Namespace+"/"+pod.Name], last = true, pod.ResourceVersion
		}
		if want := map[Phase]int{Burst: 25, BurstSorted: 25, Rate: 5, BurstAgain: 25}[phase]; len(seen) != want {
			t.Errorf("%s: %d events, want %d", phase, len(seen), want)
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
	handler, err := New(Config{Encoding: Protobuf, Pods: 5, Burst: 5})
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
