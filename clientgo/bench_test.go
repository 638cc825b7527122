//go:build unix

package clientgo_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/tidings/tidings"
	"github.com/tidings/tidings/clientgo"
	"github.com/tidings/tidings/internal/wire/wiretest"
)

// tape is the server side of a connection: one list of pods, and one watch whose frames the
// benchmark writes. All compared variants read the same bytes.
type tape struct {
	pods    []*corev1.Pod
	version int
	watch   chan io.Reader
}

// benchPods returns pods that differ like those of a few deployments.
func benchPods(n int) []*corev1.Pod {
	var pods []*corev1.Pod
	for i := range n {
		pods = append(pods, &corev1.Pod{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
			ObjectMeta: metav1.ObjectMeta{
				Namespace: fmt.Sprintf("team-%d", i%20), Name: fmt.Sprintf("web-%d", i), UID: "0f5f7a4e-" + "uid", ResourceVersion: strconv.Itoa(i + 1),
				Labels: map[string]string{"app": "web", "tier": strconv.Itoa(i % 7)}, Annotations: map[string]string{"checksum/config": strconv.Itoa(i % 50)},
			},
			Spec: corev1.PodSpec{
				NodeName: fmt.Sprintf("node-%d", i%100), ServiceAccountName: "web", RestartPolicy: corev1.RestartPolicyAlways,
				Containers: []corev1.Container{
					{Name: "web", Image: "registry.example/web:1.2.3", Args: []string{"--port=8080", "--verbose"}, Env: []corev1.EnvVar{{Name: "MODE", Value: "production"}}},
					{Name: "proxy", Image: "registry.example/proxy:4.5.6", Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: 8080}}},
				},
			},
			Status: corev1.PodStatus{Phase: corev1.PodRunning, PodIP: fmt.Sprintf("10.0.%d.%d", i/250, i%250)},
		})
	}
	return pods
}

func encode(obj apiruntime.Object) []byte {
	var b bytes.Buffer
	if err := protobuf.NewSerializer(scheme.Scheme, scheme.Scheme).Encode(obj, &b); err != nil {
		panic(err)
	}
	return b.Bytes()
}

// frames returns n watch events, each of which changes the next pod.
func (p *tape) frames(n int) []byte {
	var out []byte
	for range n {
		pod := p.pods[p.version%len(p.pods)].DeepCopy()
		p.version++
		pod.ResourceVersion, pod.Status.Message = strconv.Itoa(p.version), strconv.Itoa(p.version)
		event := metav1.WatchEvent{Type: "MODIFIED", Object: apiruntime.RawExtension{Raw: encode(pod)}}
		raw, err := event.Marshal()
		if err != nil {
			panic(err)
		}
		out = binary.BigEndian.AppendUint32(out, uint32(len(raw)))
		out = append(out, raw...)
	}
	return out
}

// RoundTrip answers list and watch requests.
func (p *tape) RoundTrip(request *http.Request) (*http.Response, error) {
	answer := &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/vnd.kubernetes.protobuf"}}, Request: request, ProtoMajor: 2}
	query := request.URL.Query()
	switch {
	case query.Get("sendInitialEvents") != "":
		answer.StatusCode, answer.Header = http.StatusUnprocessableEntity, http.Header{"Content-Type": {"application/json"}}
		answer.Body = io.NopCloser(bytes.NewReader([]byte(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Invalid","code":422}`)))
	case query.Get("watch") != "":
		answer.Header.Set("Content-Type", "application/vnd.kubernetes.protobuf;stream=watch")
		answer.Body = io.NopCloser(<-p.watch)
	default:
		list := &corev1.PodList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PodList"}, ListMeta: metav1.ListMeta{ResourceVersion: strconv.Itoa(p.version)}}
		for _, pod := range p.pods {
			list.Items = append(list.Items, *pod)
		}
		answer.Body = io.NopCloser(bytes.NewReader(encode(list)))
	}
	return answer, nil
}

// benchInformer is an informer of pods that has synced.
type benchInformer struct {
	list func() int // lists the pods and returns their number
	// late adds a handler for new pods, and returns a function that removes it.
	late func(added func()) (remove func())
}

// benchWays are the compared ways to run a pod informer. The handler is called for every change.
var benchWays = []struct {
	name string
	run  func(ctx context.Context, config *rest.Config, changed func(*corev1.Pod)) benchInformer
}{
	{"client-go", func(ctx context.Context, config *rest.Config, changed func(*corev1.Pod)) benchInformer {
		config.ContentType = "application/vnd.kubernetes.protobuf"
		return runBenchFactory(ctx, informers.NewSharedInformerFactory(kubernetes.NewForConfigOrDie(config), 0), changed)
	}},
	{"clientgo", func(ctx context.Context, config *rest.Config, changed func(*corev1.Pod)) benchInformer {
		return runBenchFactory(ctx, clientgo.NewSharedInformerFactory(config, 0), changed)
	}},
	{"native", func(ctx context.Context, config *rest.Config, changed func(*corev1.Pod)) benchInformer {
		f, err := tidings.NewFactory(config, tidings.Options{})
		if err != nil {
			panic(err)
		}
		pods, err := tidings.Informer[*corev1.Pod](f, tidings.Scope{})
		if err != nil {
			panic(err)
		}
		if _, err := pods.AddHandler(tidings.HandlerFuncs[*corev1.Pod]{Update: func(_, pod *corev1.Pod) { changed(pod) }}, tidings.HandlerOptions{Policy: tidings.Unbounded}); err != nil {
			panic(err)
		}
		if err := f.Start(ctx); err != nil {
			panic(err)
		}
		if err := f.WaitForSync(ctx); err != nil {
			panic(err)
		}
		return benchInformer{list: func() int { return len(pods.Lister().List()) }, late: func(added func()) func() {
			handler := tidings.HandlerFuncs[*corev1.Pod]{Add: func(*corev1.Pod, bool) { added() }}
			r, err := pods.AddHandler(handler, tidings.HandlerOptions{Policy: tidings.Unbounded})
			if err != nil {
				panic(err)
			}
			return func() { _ = r.Remove(ctx) }
		}}
	}},
}

func runBenchFactory(ctx context.Context, f informers.SharedInformerFactory, changed func(*corev1.Pod)) benchInformer {
	pods := f.Core().V1().Pods()
	_, err := pods.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{UpdateFunc: func(_, obj any) { changed(obj.(*corev1.Pod)) }})
	if err != nil {
		panic(err)
	}
	f.StartWithContext(ctx)
	f.WaitForCacheSync(ctx.Done())
	return benchInformer{list: func() int { return len(pods.Informer().GetStore().List()) }, late: func(added func()) func() {
		r, err := pods.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: func(any) { added() }})
		if err != nil {
			panic(err)
		}
		return func() { _ = pods.Informer().RemoveEventHandler(r) }
	}}
}

// cpuTime is the CPU time that the process has used.
func cpuTime() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		panic(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// BenchmarkEvents measures changes, 1,000 at a time, from the bytes to the handler, and the heap size of 5,000 pods.
func BenchmarkEvents(b *testing.B) {
	const batch = 1000
	for _, way := range benchWays {
		b.Run(way.name, func(b *testing.B) {
			pods := benchPods(5000)
			p := &tape{pods: pods, version: len(pods), watch: make(chan io.Reader, 1)}
			reader, writer := io.Pipe()
			p.watch <- reader
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			defer writer.Close()
			last, done := "", make(chan bool)
			before := wiretest.LiveHeap()
			informer := way.run(ctx, &rest.Config{Host: "http://server.example", Transport: p}, func(pod *corev1.Pod) {
				if pod.ResourceVersion == last {
					done <- true
				}
			})
			held := wiretest.LiveHeap() - before
			var used time.Duration
			for b.Loop() {
				b.StopTimer()
				bytes := p.frames(batch)
				last = strconv.Itoa(p.version)
				start := cpuTime()
				b.StartTimer()
				if _, err := writer.Write(bytes); err != nil {
					b.Fatal(err)
				}
				<-done
				used += cpuTime() - start
			}
			b.ReportMetric(float64(used.Nanoseconds())/float64(b.N*batch), "cpu-ns/event")
			b.ReportMetric(float64(held)/float64(len(pods)), "heap-B/pod")
			if n := informer.list(); n != len(pods) {
				b.Fatalf("%d pods", n)
			}
		})
	}
}

// BenchmarkListPods measures a list of 10,000 pods.
func BenchmarkListPods(b *testing.B) {
	benchSynced(b, func(b *testing.B, informer benchInformer, pods int) {
		for b.Loop() {
			if n := informer.list(); n != pods {
				b.Fatal(n)
			}
		}
	})
}

// BenchmarkLateHandler measures how long a handler added to an informer of 10,000 pods takes to receive all of them.
func BenchmarkLateHandler(b *testing.B) {
	benchSynced(b, func(b *testing.B, informer benchInformer, pods int) {
		for b.Loop() {
			heard, all := 0, make(chan struct{})
			remove := informer.late(func() {
				if heard++; heard == pods {
					close(all)
				}
			})
			<-all
			remove()
		}
	})
}

// benchSynced runs a benchmark on each kind of informer.
func benchSynced(b *testing.B, run func(b *testing.B, informer benchInformer, pods int)) {
	for _, way := range benchWays {
		b.Run(way.name, func(b *testing.B) {
			pods := benchPods(10_000)
			p := &tape{pods: pods, version: len(pods), watch: make(chan io.Reader, 1)}
			reader, writer := io.Pipe()
			p.watch <- reader
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			defer writer.Close()
			run(b, way.run(ctx, &rest.Config{Host: "http://server.example", Transport: p}, func(*corev1.Pod) {}), len(pods))
		})
	}
}
