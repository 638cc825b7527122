package promises_test

import (
	"bytes"
	"context"
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tidings/tidings"
	"github.com/tidings/tidings/object"
	"github.com/tidings/tidings/source"
	"github.com/tidings/tidings/source/recording"
	"github.com/tidings/tidings/tidingstest"
)

// onlyRed is a user's source that embeds one of ours and inspects the objects.
type onlyRed struct{ *source.HTTP[pod] }

func (s onlyRed) List(ctx context.Context, opts source.ListOptions[pod], each func(pod) error) (source.ListResult, error) {
	return s.HTTP.List(ctx, opts, func(p pod) error {
		if p.Labels["color"] != "red" {
			return nil
		}
		return each(p)
	})
}

// relisted runs an informer of red pods with everything folded, and makes it relist unchanged objects.
func relisted(t *testing.T, opts tidings.Options, newSource func(*tidingstest.Server) source.ListerWatcher[pod]) {
	server := tidingstest.NewServer(t, tidingstest.ServerOptions{})
	const pods = 50
	for i := range pods {
		server.Create(redPod(i))
	}
	opts.MemoryBudget, opts.NoWatchList = 1, true
	inf, err := tidings.NewInformer(newSource(server), tidings.InformerOptions[pod]{Options: opts, Name: "pods"})
	if err != nil {
		t.Fatal(err)
	}
	gone := 0
	mustAdd(t, inf, tidings.HandlerFuncs[pod]{Delete: func(tidings.Tombstone[pod]) { gone++ }}, tidings.HandlerOptions{})
	if err := inf.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := inf.WaitForSync(t.Context()); err != nil {
		t.Fatal(err)
	}
	runtime.GC() // or the objects are still in memory
	server.Stop()
	server.Create(redPod(pods))
	server.Compact()
	server.Start()
	time.Sleep(10 * time.Minute)
	synctest.Wait()
	for i := range pods + 1 {
		key := object.Key{Namespace: "shop", Name: fmt.Sprint("p", i)}
		if p, ok := inf.Get(key); !ok || p.Spec.NodeName != "node" || p.GetSelfLink() != "" {
			t.Fatalf("the store has %v of %v", p, key)
		}
	}
	if err := inf.Stop(context.Background()); err != nil {
		t.Error(err)
	}
	if lists := inf.Status().Parts[0].Reflector.Lists; gone != 0 || lists < 2 {
		t.Errorf("the handler heard of %d deletions, after %d lists", gone, lists)
	}
}

func redPod(i int) pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: fmt.Sprint("p", i), Labels: map[string]string{"color": "red"}},
		Spec:       corev1.PodSpec{NodeName: "node"},
	}
}

func httpOf(t *testing.T, server *tidingstest.Server) *source.HTTP[pod] {
	t.Helper()
	client, err := source.NewClient(server.Config())
	if err != nil {
		t.Fatal(err)
	}
	src, err := source.NewHTTP[pod](client, source.Scope{Resource: podResource})
	if err != nil {
		t.Fatal(err)
	}
	return src
}

// TestWrappedSourceGetsWholeObjects relists folded objects through sources that inspect them.
func TestWrappedSourceGetsWholeObjects(t *testing.T) {
	t.Run("as it is", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			relisted(t, tidings.Options{}, func(server *tidingstest.Server) source.ListerWatcher[pod] { return httpOf(t, server) })
		})
	})
	t.Run("filtered", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			relisted(t, tidings.Options{}, func(server *tidingstest.Server) source.ListerWatcher[pod] { return onlyRed{httpOf(t, server)} })
		})
	})
	t.Run("recorded", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			var file bytes.Buffer
			recorder, err := recording.NewRecorder(&file, recording.Options{})
			if err != nil {
				t.Fatal(err)
			}
			relisted(t, tidings.Options{Recorder: recorder}, func(server *tidingstest.Server) source.ListerWatcher[pod] { return httpOf(t, server) })
			if err := recorder.Close(); err != nil {
				t.Fatal(err)
			}
			if n := bytes.Count(file.Bytes(), []byte(`"nodeName":"node"`)); n < 100 {
				t.Errorf("%d whole pods were recorded, of two lists", n)
			}
		})
	})
}
