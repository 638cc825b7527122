package tidingstest

import (
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/tidings/tidings/internal/protocol"
)

// BenchmarkStart starts a server, sends it one request and stops it.
func BenchmarkStart(b *testing.B) {
	for b.Loop() {
		b.StopTimer()
		t := &benchT{TB: b}
		b.StartTimer()
		s := NewServer(t, ServerOptions{})
		if _, err := kubernetes.NewForConfigOrDie(s.Config()).CoreV1().Pods("").List(b.Context(), metav1.ListOptions{}); err != nil {
			b.Fatal(err)
		}
		t.end()
	}
}

// benchT runs the cleanups of one iteration at its end.
type benchT struct {
	testing.TB
	cleanups []func()
}

func (t *benchT) Cleanup(f func()) { t.cleanups = append(t.cleanups, f) }
func (t *benchT) end() {
	for _, f := range t.cleanups {
		f()
	}
}

func BenchmarkRequests(b *testing.B) {
	for _, loopback := range []bool{false, true} {
		s := NewServer(b, ServerOptions{Loopback: loopback})
		config := s.Config()
		config.ContentType = protocol.Protobuf
		client := kubernetes.NewForConfigOrDie(config).CoreV1().ConfigMaps("a")
		n := 0
		b.Run(fmt.Sprintf("loopback=%v/create", loopback), func(b *testing.B) {
			for b.Loop() {
				n++
				if _, err := client.Create(b.Context(), configMap("a", fmt.Sprint("x", n)), metav1.CreateOptions{}); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(fmt.Sprintf("loopback=%v/patch", loopback), func(b *testing.B) {
			for b.Loop() {
				n++
				patch := fmt.Appendf(nil, `{"data":{"n":"%d"}}`, n)
				if _, err := client.Patch(b.Context(), "x1", types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(fmt.Sprintf("loopback=%v/get", loopback), func(b *testing.B) {
			for b.Loop() {
				if _, err := client.Get(b.Context(), "x1", metav1.GetOptions{}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkCreateAtScale creates objects next to many others and a watch.
func BenchmarkCreateAtScale(b *testing.B) {
	s := NewServer(b, ServerOptions{})
	for i := range 20_000 {
		s.Create(configMap("a", fmt.Sprint("y", i)))
	}
	client := kubernetes.NewForConfigOrDie(s.Config()).CoreV1().ConfigMaps("a")
	w, err := client.Watch(b.Context(), metav1.ListOptions{ResourceVersion: s.ResourceVersion()})
	if err != nil {
		b.Fatal(err)
	}
	defer w.Stop()
	n := 0
	for b.Loop() {
		n++
		if _, err := client.Create(b.Context(), configMap("a", fmt.Sprint("x", n)), metav1.CreateOptions{}); err != nil {
			b.Fatal(err)
		}
		<-w.ResultChan()
	}
}
