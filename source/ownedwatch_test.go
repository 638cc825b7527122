package source

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"unsafe"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"

	"github.com/tidings/tidings/object"
)

// storedObjects is the decoder of a watch that sends objects which somebody else keeps.
type storedObjects struct{ pods []*corev1.Pod }

func (s *storedObjects) Decode() (watch.EventType, runtime.Object, error) {
	if len(s.pods) == 0 {
		return "", nil, io.EOF
	}
	pod := s.pods[0]
	s.pods = s.pods[1:]
	return watch.Added, pod, nil
}

func (*storedObjects) Close() {}

type noReports struct{}

func (noReports) AsObject(error) runtime.Object { return &metav1.Status{} }

func podsWith(labels map[string]string, names ...string) (pods []*corev1.Pod) {
	for _, name := range names {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, ResourceVersion: "1",
			Labels: map[string]string{}}}
		for key, value := range labels {
			pod.Labels[key] = value
		}
		pod.Spec.Containers = []corev1.Container{{Name: "app", Image: fmt.Sprint("image:", len(names)),
			Args: []string{"--port", "8080"}}}
		pods = append(pods, pod)
	}
	return pods
}

// manyNames are enough objects for parts to be found again.
func manyNames() (names []string) {
	for i := range 40 {
		names = append(names, fmt.Sprint("pod-", i))
	}
	return names
}

// read returns the first n objects of a watch that shares equal parts.
func read(t *testing.T, w watch.Interface, n int) (pods []*corev1.Pod) {
	t.Helper()
	src := &clientSource[*corev1.Pod, *corev1.PodList]{}
	objects := src.objects(func(object.Key) (*corev1.Pod, bool) { return nil, false }, false)
	objects.owned = decodesForReader(w)
	stream := newWatchStream(t.Context(), w, objects)
	defer stream.Close()
	var events []Event[*corev1.Pod]
	for len(events) < n {
		var err error
		if events, err = stream.Next(events); err != nil && len(events) < n { // the end may come with the last events
			t.Fatal(err)
		}
	}
	for _, e := range events {
		pods = append(pods, e.Object)
	}
	return pods
}

func sharesArgs(a, b *corev1.Pod) bool {
	return unsafe.SliceData(a.Spec.Containers[0].Args) == unsafe.SliceData(b.Spec.Containers[0].Args)
}

// What a REST client has decoded shares equal parts, without a copy of the rest.
func TestOwnedWatch(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		for _, pod := range podsWith(map[string]string{"app": "web"}, manyNames()...) {
			pod.APIVersion, pod.Kind = "v1", "Pod"
			body, err := json.Marshal(pod)
			if err != nil {
				t.Error(err)
			}
			fmt.Fprintf(w, `{"type":"ADDED","object":%s}`+"\n", body)
		}
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}))
	defer server.Close()
	client, err := kubernetes.NewForConfig(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	w, err := client.CoreV1().Pods("shop").Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if !decodesForReader(w) {
		t.Errorf("a %T of a REST client is not recognized", w)
	}
	pods := read(t, w, len(manyNames()))
	if last := len(pods) - 1; !sharesArgs(pods[last], pods[last-1]) || pods[last].Name != "pod-39" ||
		pods[last].Labels["app"] != "web" {
		t.Errorf("the last two objects share nothing, or are not what was sent: %v", pods[last])
	}
}

// Objects that somebody else may have are copied, and stay as they are.
func TestWatchOfStoredObjects(t *testing.T) {
	stored := podsWith(map[string]string{"app": "web"}, manyNames()...)
	w := watch.NewStreamWatcher(&storedObjects{stored}, noReports{})
	if decodesForReader(w) {
		t.Error("a decoder that is not a REST client's is taken for one")
	}
	pods := read(t, w, len(stored))
	for i, pod := range pods {
		if pod == stored[i] || sharesArgs(pod, stored[i]) {
			t.Fatalf("%s is the stored object, or has a part of it", pod.Name)
		}
		if i > 0 && sharesArgs(stored[i], stored[i-1]) {
			t.Fatalf("the stored object %s was changed", stored[i].Name)
		}
	}
	fakes, err := fake.NewClientset().CoreV1().Pods("shop").Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer fakes.Stop()
	if decodesForReader(fakes) || decodesForReader(nil) || decodesForReader((*watch.StreamWatcher)(nil)) {
		t.Error("the watch of a fake is taken for one of a REST client")
	}
}
