package promises_test

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tidings/tidings"
	"github.com/tidings/tidings/internal/testseed"
	"github.com/tidings/tidings/object"
	"github.com/tidings/tidings/tidingstest"
)

// TestReplayEqualsFoldedServer changes objects of a server at random, which are folded as they
// arrive, and makes it forget its history so that all are listed again. Replaying a handler's
// notifications yields the store, each old state is the very object of the handler's last
// notification, and the contents match the server's.
func TestReplayEqualsFoldedServer(t *testing.T) {
	testseed.Each(t, 6, func(t *testing.T, seed uint64) {
		synctest.Test(t, func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 0))
			w := &foldedServer{Rand: r, server: tidingstest.NewServer(t, tidingstest.ServerOptions{})}
			for range 40 {
				w.write()
			}
			p := startProgram(t, w.server, tidings.Options{
				MemoryBudget: []int64{1, 60_000, 300_000}[r.IntN(3)], NoWatchList: r.IntN(2) == 0, Seed: seed | 1,
			}, tidings.Scope{})
			replay := &replayed{t: t, state: map[object.Key]pod{}}
			mustAdd(t, p.inf, replay, tidings.HandlerOptions{})
			p.sync()
			for range 30 {
				w.round(p.inf)
			}
			time.Sleep(10 * time.Minute)
			w.compare(t, p.inf)
			if err := p.inf.Stop(t.Context()); err != nil {
				t.Fatal(err)
			}
			replay.mustEqual(p.inf.Snapshot(), "the handler")
		})
	})
}

// foldedServer is a server with random writes.
type foldedServer struct {
	*rand.Rand
	server *tidingstest.Server
	writes int
}

// round writes, sometimes while the server is unreachable and then forgets its history, and reads.
func (w *foldedServer) round(inf *tidings.SharedInformer[pod]) {
	away := w.IntN(5) == 0
	if away {
		w.server.Partition()
	}
	for range w.IntN(30) {
		w.write()
	}
	if away {
		w.server.Compact()
		w.server.Heal()
	}
	if w.IntN(2) == 0 {
		time.Sleep(time.Duration(w.IntN(120)) * time.Second)
	}
	for range w.IntN(10) {
		inf.Get(w.key())
	}
}

func (w *foldedServer) key() object.Key {
	return object.Key{Namespace: fmt.Sprint("n", w.IntN(3)), Name: fmt.Sprint("p", w.IntN(40))}
}

func (w *foldedServer) write() {
	w.writes++
	key := w.key()
	_, exists := w.server.Versions(podResource)[key]
	switch p := w.pod(key); {
	case !exists:
		w.server.Create(p)
	case w.IntN(4) == 0:
		w.server.Delete(p)
	default:
		w.server.Update(p)
	}
}

// pod returns a pod that shares most of its parts with the previous one.
func (w *foldedServer) pod(key object.Key) pod {
	p := newPod(key.Namespace, key.Name)
	p.Labels = map[string]string{"write": fmt.Sprint(w.writes)}
	p.Annotations = map[string]string{"text": strings.Repeat(key.String()+" ", 20)}
	p.Spec = corev1.PodSpec{NodeName: fmt.Sprint("node-", w.IntN(2)), Containers: []corev1.Container{{
		Name: "main", Image: "registry.example/" + key.Name, Args: []string{strings.Repeat("x", 100)},
	}}}
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Unix(int64(w.writes), 0)}}
	return p
}

// compare compares the contents with the server's.
func (w *foldedServer) compare(t *testing.T, inf *tidings.SharedInformer[pod]) {
	t.Helper()
	objects := w.server.Objects(podResource)
	if got := inf.Snapshot().Len(); got != len(objects) {
		t.Errorf("the store has %d objects, the server %d", got, len(objects))
	}
	for _, o := range objects {
		want := o.(pod).DeepCopy()
		want.TypeMeta = metav1.TypeMeta{}
		if got, ok := inf.Get(object.KeyOf(want)); !ok || !reflect.DeepEqual(got, want) {
			t.Errorf("%s is %+v, on the server it is %+v", object.KeyOf(want), got, want)
		}
	}
}
