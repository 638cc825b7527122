package source_test

import (
	"maps"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"

	"k8s.io/client-go/rest"

	"github.com/tidings/tidings/internal/testseed"
	"github.com/tidings/tidings/object"
	"github.com/tidings/tidings/source"
	"github.com/tidings/tidings/tidingstest"
)

// shardView applies what a source's list and watch bring to a map.
type shardView struct {
	from source.ListerWatcher[object.Object]
	mu   sync.Mutex
	held map[object.Key]string
}

// follow watches from the start if the source can and initial is set, or else after a list, until the stream is closed.
func (v *shardView) follow(t *testing.T, initial bool) source.Stream[object.Object] {
	v.held = map[object.Key]string{}
	stream, err := v.from.Watch(t.Context(), source.WatchOptions[object.Object]{SendInitialEvents: true})
	if err == nil && !initial {
		stream.Close()
	}
	if err != nil || !initial {
		listed, result := mustList(t, v.from, source.ListOptions[object.Object]{})
		for _, o := range listed {
			v.held[object.KeyOf(o)] = o.GetResourceVersion()
		}
		stream = mustWatch(t, v.from, source.WatchOptions[object.Object]{ResourceVersion: result.ResourceVersion})
	}
	go func() {
		for {
			events, err := stream.Next(nil)
			if err != nil {
				return
			}
			v.apply(events)
		}
	}()
	return stream
}

func (v *shardView) apply(events []source.Event[object.Object]) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, e := range events {
		switch e.Type {
		case source.Added, source.Modified:
			v.held[object.KeyOf(e.Object)] = e.ResourceVersion
		case source.Deleted:
			delete(v.held, object.KeyOf(e.Object))
		}
	}
}

// TestShardModel reads a collection in shards while it changes at random. Together they always have everything, and no two
// have the same object.
func TestShardModel(t *testing.T) {
	for name, open := range selecting {
		t.Run(name, func(t *testing.T) {
			testseed.Each(t, 6, func(t *testing.T, seed uint64) {
				bubble(t, tidingstest.ServerOptions{}, func(t *testing.T, s *tidingstest.Server) {
					shardModel(t, rand.New(rand.NewPCG(seed, 0)), s, open)
				})
			})
		})
	}
}

func shardModel(
	t *testing.T, random *rand.Rand, s *tidingstest.Server,
	open func(*rest.Config, source.Scope) (source.ListerWatcher[object.Object], error),
) {
	change := func() {
		p := pod(strconv.Itoa(random.IntN(4)), strconv.Itoa(random.IntN(6)))
		switch _, exists := s.Versions(pods)[object.KeyOf(p)]; {
		case !exists:
			s.Create(p)
		case random.IntN(3) == 0:
			s.Delete(p)
		default:
			s.Update(p)
		}
	}
	for range 20 {
		change()
	}
	n := 1 + random.IntN(5)
	by := []source.ShardField{source.ShardByUID, source.ShardByNamespace}[random.IntN(2)]
	var views []*shardView
	for i := range n {
		from, err := open(s.Config(), source.Scope{Resource: pods, Shard: source.Shard{By: by, Of: n, Indexes: []int{i}}})
		if err != nil {
			t.Fatal(err)
		}
		views = append(views, &shardView{from: from})
		defer views[i].follow(t, random.IntN(2) == 0).Close()
	}
	for range 40 {
		synctest.Wait()
		all := map[object.Key]string{}
		for _, v := range views {
			v.mu.Lock()
			for key, version := range v.held {
				if all[key] != "" {
					t.Errorf("%v is in two of %d shards", key, n)
				}
				all[key] = version
			}
			v.mu.Unlock()
		}
		if want := s.Versions(pods); !maps.Equal(all, want) {
			t.Errorf("%d shards by %s: %v, want %v", n, by, all, want)
		}
		change()
	}
}
