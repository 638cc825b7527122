package clientgo_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/tidings/tidings/internal/testseed"
)

// replay is a handler that applies notifications to a map and checks that they are consistent with it.
type replay struct {
	t    *testing.T
	name string

	mu   sync.Mutex
	pods map[string]string // version by key
}

func newReplay(t *testing.T, name string) *replay {
	return &replay{t: t, name: name, pods: map[string]string{}}
}

func keyAndVersion(obj any) (key, version string) {
	p := obj.(*corev1.Pod)
	return p.Namespace + "/" + p.Name, p.ResourceVersion
}

func (r *replay) OnAdd(obj any, _ bool) {
	key, version := keyAndVersion(obj)
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, exists := r.pods[key]; exists {
		r.t.Errorf("%s: %s was added twice", r.name, key)
	}
	r.pods[key] = version
}

func (r *replay) OnUpdate(old, new any) {
	key, version := keyAndVersion(new)
	_, before := keyAndVersion(old)
	r.mu.Lock()
	defer r.mu.Unlock()
	if have, exists := r.pods[key]; !exists || have != before {
		r.t.Errorf("%s: %s was updated from version %q, it was told of %q", r.name, key, before, have)
	}
	was, _ := strconv.Atoi(before)
	if is, _ := strconv.Atoi(version); is < was {
		r.t.Errorf("%s: %s goes back from version %d to %d", r.name, key, was, is)
	}
	r.pods[key] = version
}

func (r *replay) OnDelete(obj any) {
	key, err := cache.DeletionHandlingMetaNamespaceKeyFunc(obj)
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, exists := r.pods[key]; err != nil || !exists {
		r.t.Errorf("%s: %s was deleted, of which it was not told: %v", r.name, key, err)
	}
	delete(r.pods, key)
}

// "Eventually the cache holds an exact copy of that collection", whatever events were lost; "for a
// given client and object, the notifications are delivered in order"; "a client added after Run
// starts gets a startup batch". So every handler that applies its notifications ends up with the
// source's content.
func TestConvergence(t *testing.T) {
	seed := testseed.Seed(t)
	bothEngines(t, func(t *testing.T, e engine) {
		random := rand.New(rand.NewPCG(seed, 0))
		src, content := newPods(t), map[string]bool{}
		inf := e.informer(src, &corev1.Pod{}, 0, cache.Indexers{"label": byLabel})
		handlers := []*replay{newReplay(t, "early")}
		mustAdd(t, inf, handlers[0])
		run(t, inf)
		for step := range 400 {
			key := fmt.Sprintf("%c/pod-%d", 'a'+rune(random.IntN(3)), random.IntN(6))
			p := labeled(key, string('x'+rune(random.IntN(3))))
			lost := random.IntN(8) == 0
			switch exists := content[key]; {
			case exists && random.IntN(3) == 0:
				delete(content, key)
				if lost {
					src.DeleteDropWatch(p)
				} else {
					src.Delete(p)
				}
			case exists && lost:
				src.ModifyDropWatch(p)
			case exists:
				src.Modify(p)
			case lost:
				content[key] = true
				src.AddDropWatch(p)
			default:
				content[key] = true
				src.Add(p)
			}
			if lost {
				src.ResetWatch()
				time.Sleep(2 * time.Minute) // in the bubble: time for a new list
			}
			if step%100 == 50 {
				late := newReplay(t, fmt.Sprintf("late at step %d", step))
				mustAdd(t, inf, late)
				handlers = append(handlers, late)
			}
		}
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		want := slices.Sorted(maps.Keys(content))
		if got := keysOf(t, inf.GetStore().List()); !slices.Equal(got, want) {
			t.Errorf("the store has %v, want %v", got, want)
		}
		for _, h := range handlers {
			h.mu.Lock()
			if got := slices.Sorted(maps.Keys(h.pods)); !slices.Equal(got, want) {
				t.Errorf("%s: the handler has %v, want %v", h.name, got, want)
			}
			h.mu.Unlock()
		}
		for _, value := range []string{"x", "y", "z"} {
			items, err := inf.GetIndexer().ByIndex("label", value)
			must(t, err)
			for _, item := range items {
				if item.(*corev1.Pod).Labels["v"] != value {
					t.Errorf("the index has %s under %s", describe(item), value)
				}
			}
		}
	})
}
