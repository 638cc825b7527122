package source_test

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/tidings/tidings/internal/testseed"
	"github.com/tidings/tidings/object"
	"github.com/tidings/tidings/source"
	"github.com/tidings/tidings/tidingstest"
)

// forgetful is a transport to a server that forgets the selectors of watches, or of lists too.
type forgetful struct {
	http.RoundTripper
	watches, lists bool
}

func (f forgetful) RoundTrip(req *http.Request) (*http.Response, error) {
	q := req.URL.Query()
	if watch := q.Get("watch") != ""; watch && f.watches || !watch && f.lists {
		q.Del("labelSelector")
		q.Del("fieldSelector")
		req = req.Clone(req.Context())
		req.URL.RawQuery = q.Encode()
	}
	return f.RoundTripper.RoundTrip(req)
}

// selecting are the sources that check selectors, by name.
var selecting = map[string]func(*rest.Config, source.Scope) (source.ListerWatcher[object.Object], error){
	"protobuf": func(c *rest.Config, s source.Scope) (source.ListerWatcher[object.Object], error) {
		return newLike(c, s, &corev1.Pod{})
	},
	"JSON": func(c *rest.Config, s source.Scope) (source.ListerWatcher[object.Object], error) {
		s.Kind = corev1.SchemeGroupVersion.WithKind("Pod")
		return newLike(c, s, &unstructured.Unstructured{})
	},
	"metadata": func(c *rest.Config, s source.Scope) (source.ListerWatcher[object.Object], error) {
		return newLike(c, s, &metav1.PartialObjectMetadata{})
	},
	"protobuf without labels": func(c *rest.Config, s source.Scope) (source.ListerWatcher[object.Object], error) {
		s.Trim = object.Trim{"metadata.labels"}
		return newLike(c, s, &corev1.Pod{})
	},
	"JSON without labels": func(c *rest.Config, s source.Scope) (source.ListerWatcher[object.Object], error) {
		s.Trim = object.Trim{"metadata.labels[team]"}
		return newLike(c, s, &unstructured.Unstructured{})
	},
	"client": func(c *rest.Config, s source.Scope) (source.ListerWatcher[object.Object], error) {
		client, err := kubernetes.NewForConfig(c)
		if err != nil {
			return nil, err
		}
		s.Trim = object.Trim{"metadata.labels"}
		return source.FromClient[object.Object](client.CoreV1().Pods(""), s)
	},
}

func newLike(c *rest.Config, s source.Scope, example object.Object) (source.ListerWatcher[object.Object], error) {
	client, err := source.NewClient(c)
	if err != nil {
		return nil, err
	}
	return source.NewHTTPLike(client, s, example)
}

// TestSelectionModel applies what a list and a watch bring to a map, while the server's objects change at random. It is
// always what the server has and the selectors select; if its lists forget them too, it is everything.
func TestSelectionModel(t *testing.T) {
	for name, open := range selecting {
		t.Run(name, func(t *testing.T) {
			testseed.Each(t, 12, func(t *testing.T, seed uint64) {
				random := rand.New(rand.NewPCG(seed, 0))
				bubble(t, tidingstest.ServerOptions{}, func(t *testing.T, s *tidingstest.Server) {
					scope := source.Scope{
						Resource: pods, Labels: []string{"", "team=a", "team!=a", "team", "!team", "team in (a,b)"}[random.IntN(6)],
						Fields: []string{"", "metadata.name=0", "metadata.name!=0", "metadata.namespace=a", "metadata.namespace!=a,metadata.name!=1"}[random.IntN(5)],
					}
					f := forgetful{watches: random.IntN(4) > 0}
					f.lists = f.watches && random.IntN(3) == 0
					selectionModel(t, random, s, scope, f, open)
				})
			})
		})
	}
}

func selectionModel(
	t *testing.T, random *rand.Rand, s *tidingstest.Server, scope source.Scope, f forgetful,
	open func(*rest.Config, source.Scope) (source.ListerWatcher[object.Object], error),
) {
	config := s.Config()
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		f.RoundTripper = next
		return f
	})
	from, err := open(config, scope)
	if err != nil {
		t.Fatal(err)
	}
	change := func() {
		p := pod([]string{"a", "b"}[random.IntN(2)], strconv.Itoa(random.IntN(3)))
		p.Labels = map[string]string{"team": string(rune('a' + random.IntN(3))), "x": "y"}
		if random.IntN(4) == 0 {
			delete(p.Labels, "team")
		}
		switch _, exists := s.Versions(pods)[object.KeyOf(p)]; {
		case !exists:
			s.Create(p)
		case random.IntN(3) == 0:
			s.Delete(p)
		default:
			s.Update(p)
		}
	}
	for range 8 {
		change()
	}
	want := func(all bool) map[object.Key]string {
		byLabels, _ := labels.Parse(scope.Labels)
		byFields, _ := fields.ParseSelector(scope.Fields)
		held := map[object.Key]string{}
		for _, o := range s.Objects(pods) {
			m := fields.Set{"metadata.name": o.GetName(), "metadata.namespace": o.GetNamespace()}
			if all || byLabels.Matches(labels.Set(o.GetLabels())) && byFields.Matches(m) {
				held[object.KeyOf(o)] = o.GetResourceVersion()
			}
		}
		return held
	}
	everything := f.lists && len(want(true)) != len(want(false))
	var mu sync.Mutex
	held := map[object.Key]string{}
	listed, result := mustList(t, from, source.ListOptions[object.Object]{})
	for _, o := range listed {
		held[object.KeyOf(o)] = o.GetResourceVersion()
	}
	stream := mustWatch(t, from, source.WatchOptions[object.Object]{ResourceVersion: result.ResourceVersion})
	go func() {
		for {
			events, err := stream.Next(nil)
			if err != nil {
				return
			}
			mu.Lock()
			for _, e := range events {
				switch e.Type {
				case source.Added, source.Modified:
					held[object.KeyOf(e.Object)] = e.ResourceVersion
				case source.Deleted:
					delete(held, object.KeyOf(e.Object))
				}
			}
			mu.Unlock()
		}
	}()
	for range 30 {
		synctest.Wait()
		mu.Lock()
		if want := want(everything); !maps.Equal(held, want) {
			t.Errorf("%q %q, %+v: %v, want %v", scope.Labels, scope.Fields, f, held, want)
		}
		mu.Unlock()
		change()
	}
	stream.Close()
	synctest.Wait()
}

// TestInitialEventsThatForgetSelectors end the watch: a list is to show what the server selects by.
func TestInitialEventsThatForgetSelectors(t *testing.T) {
	bubble(t, tidingstest.ServerOptions{}, func(t *testing.T, s *tidingstest.Server) {
		for i := range 2 {
			p := pod("a", fmt.Sprint(i))
			p.Labels = map[string]string{"team": fmt.Sprint(i)}
			s.Create(p)
		}
		f := forgetful{watches: true, lists: true}
		config := s.Config()
		config.Wrap(func(next http.RoundTripper) http.RoundTripper {
			f.RoundTripper = next
			return f
		})
		from, err := selecting["protobuf"](config, source.Scope{Resource: pods, Labels: "team=0"})
		if err != nil {
			t.Fatal(err)
		}
		streamed := func() (n int, err error) {
			stream, err := from.Watch(t.Context(), source.WatchOptions[object.Object]{SendInitialEvents: true})
			if err != nil {
				return 0, err
			}
			defer stream.Close()
			for {
				events, err := stream.Next(nil)
				if err != nil {
					return n, err
				}
				for _, e := range events {
					if e.InitialEventsEnd {
						return n, nil
					}
					n++
				}
			}
		}
		if n, err := streamed(); !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("%d objects, %v", n, err)
		}
		mustList(t, from, source.ListOptions[object.Object]{})
		if n, err := streamed(); n != 2 || err != nil {
			t.Errorf("%d objects although a list had both, %v", n, err)
		}
	})
}
