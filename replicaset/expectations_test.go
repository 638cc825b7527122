package replicaset

import (
	"fmt"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tidings/tidings/internal/testseed"
	"github.com/tidings/tidings/object"
)

// fakeCache is a cache that the test controls.
type fakeCache struct {
	version int
	pods    map[object.Key]*corev1.Pod
}

func (c *fakeCache) Get(key object.Key) (*corev1.Pod, bool) { p, ok := c.pods[key]; return p, ok }

func (c *fakeCache) ResourceVersionIn(string) string { return strconv.Itoa(c.version) }

func storedPod(name string, uid types.UID, version int) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: uid, ResourceVersion: strconv.Itoa(version)}}
}

// expectation is one write in the model.
type expectation struct {
	version int         // of a creation; 0 for a deletion
	pod     *corev1.Pod // of a deletion
}

// expectationModel keeps every write and checks all of them each time.
type expectationModel struct {
	uid    types.UID
	writes []expectation
	last   time.Time
}

func (m *expectationModel) add(uid types.UID, x expectation) {
	if m.uid != uid {
		m.uid, m.writes = uid, nil
	}
	m.writes, m.last = append(m.writes, x), time.Now()
}

func (m *expectationModel) fulfilled(uid types.UID, cache *fakeCache) bool {
	if m.uid != uid || time.Since(m.last) >= expectationTimeout {
		m.writes = nil
	}
	for _, x := range m.writes {
		if x.version > cache.version {
			return false
		}
		if x.pod != nil {
			if p, ok := cache.Get(object.KeyOf(x.pod)); ok && p.UID == x.pod.UID && p.DeletionTimestamp == nil {
				return false
			}
		}
	}
	m.writes = nil
	return true
}

func TestExpectationsEqualTheModel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := testseed.Rand(t)
		cache := &fakeCache{pods: map[object.Key]*corev1.Pod{}}
		e := newExpectations(cache)
		models := map[object.Key]*expectationModel{}
		for step := range 20_000 {
			owner := object.Key{Namespace: "shop", Name: pick(r, "a", "b", "c")}
			uid := pick[types.UID](r, "first", "first", "second")
			m := models[owner]
			if m == nil {
				m = &expectationModel{}
				models[owner] = m
			}
			// A uid that is gone never returns, nor does a deletion end: so every step has its own uid.
			pod := storedPod(fmt.Sprint("pod-", r.IntN(4)), types.UID(fmt.Sprint(step)), cache.version+r.IntN(3))
			held, isHeld := cache.Get(object.KeyOf(pod))
			switch r.IntN(9) {
			case 0:
				e.created(owner, uid, pod)
				m.add(uid, expectation{version: atoi(pod.ResourceVersion)})
			case 1:
				if isHeld {
					pod = held
				}
				e.deleted(owner, uid, pod)
				m.add(uid, expectation{pod: pod})
			case 2:
				cache.version++
			case 3:
				cache.pods[object.KeyOf(pod)] = pod
			case 4:
				if isHeld {
					held = held.DeepCopy()
					held.DeletionTimestamp = &metav1.Time{Time: time.Now()}
					cache.pods[object.KeyOf(held)] = held
				}
			case 5:
				delete(cache.pods, object.KeyOf(pod))
			case 6:
				time.Sleep(time.Duration(r.IntN(int(expectationTimeout))))
			case 7:
				if r.IntN(5) == 0 {
					e.forget(owner)
					delete(models, owner)
				}
			default:
				ok, wait := e.fulfilled(owner, uid)
				if want := m.fulfilled(uid, cache); ok != want || ok != (wait == 0) || wait > expectationRecheck {
					t.Fatalf("step %d: fulfilled is %v, wait %v; the model says %v", step, ok, wait, want)
				}
			}
		}
	})
}

func atoi(s string) int { n, _ := strconv.Atoi(s); return n }

func TestExpectationsEndAfterFiveMinutes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newExpectations(&fakeCache{})
		owner := object.Key{Namespace: "shop", Name: "web"}
		e.created(owner, "u", storedPod("web-1", "1", 7))
		for _, step := range []time.Duration{0, 5*time.Minute - time.Second} {
			time.Sleep(step)
			if ok, wait := e.fulfilled(owner, "u"); ok || wait <= 0 {
				t.Fatalf("fulfilled after %v: %v, wait %v", step, ok, wait)
			}
		}
		time.Sleep(time.Second)
		if ok, _ := e.fulfilled(owner, "u"); !ok {
			t.Fatal("not given up after 5 minutes")
		}
		if len(e.owners) != 0 {
			t.Fatal("what is over was kept")
		}
	})
}
