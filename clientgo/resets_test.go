package clientgo_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/tidings/tidings/object"
	"github.com/tidings/tidings/tidingstest"
)

// behindAProxy is one engine's informers of a server whose connections a proxy resets: one of each form, and one over a
// client's functions.
type behindAProxy struct {
	*tidingstest.Server
	informers map[string]cache.SharedIndexInformer
	behind    time.Duration // how long informers were not up to date, added up
}

func newBehindAProxy(t *testing.T, e engine, options tidingstest.ServerOptions) *behindAProxy {
	options.TLS, options.HTTP2 = true, true
	b := &behindAProxy{Server: tidingstest.NewServer(t, options), informers: map[string]cache.SharedIndexInformer{}}
	b.Create(labeled("a/one", "0"))
	b.InjectAlways(tidingstest.Any, tidingstest.Fault{Delay: 150 * time.Millisecond})
	client := kubernetes.NewForConfigOrDie(b.Config())
	core := client.CoreV1().RESTClient()
	functions := cache.NewListWatchFromClient(core, "pods", metav1.NamespaceAll, fields.Everything())
	b.informers["functions"] = e.informer(functions, &corev1.Pod{}, 0, cache.Indexers{})
	b.informers["clientset"] = e.factory(client, 0, factoryOptions{}).Core().V1().Pods().Informer()
	for _, form := range []string{"typed", "dynamic", "metadata"} {
		if e.name == ours.name {
			b.informers[form] = informerOf(makeFactory(form, b.Config()), pods)
		} else {
			b.informers[form] = informerOf(upstreamFactory(form, b.Config()), pods)
		}
	}
	for _, inf := range b.informers {
		run(t, inf)
	}
	return b
}

// measure adds the time step to behind for each informer that is behind now.
func (b *behindAProxy) measure(t *testing.T, step time.Duration) {
	want := b.Versions(pods)[object.Key{Namespace: "a", Name: "one"}]
	for name, inf := range b.informers {
		if !inf.HasSynced() {
			t.Fatalf("%s has not synced", name)
		}
		held, exists, err := inf.GetStore().GetByKey("a/one")
		if err != nil || !exists {
			t.Fatalf("%s holds no pod: %v", name, err)
		}
		if held.(metav1.Object).GetResourceVersion() != want {
			b.behind += step
		}
	}
}

func (b *behindAProxy) requests() (lists, all int) {
	lists = b.Count(tidingstest.List) + b.Count(tidingstest.WatchList)
	return lists, lists + b.Count(tidingstest.Watch)
}

// TestConnectionsReset has a proxy that resets all connections every now and then, for ten minutes: our informers send
// no more requests than client-go's, and are not behind for longer.
func TestConnectionsReset(t *testing.T) {
	for _, every := range []time.Duration{time.Minute, 20 * time.Second, 5 * time.Second} {
		for _, load := range []time.Duration{700 * time.Millisecond, time.Hour} {
			for _, streams := range []bool{true, false} {
				t.Run(fmt.Sprintf("every %v, a change each %v, streamed %t", every, load, streams), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						const step, duration = 100 * time.Millisecond, 10 * time.Minute
						options := tidingstest.ServerOptions{NoWatchList: !streams}
						both := []*behindAProxy{newBehindAProxy(t, ours, options), newBehindAProxy(t, upstream, options)}
						time.Sleep(time.Second)
						for at := step; at <= duration; at += step {
							for _, b := range both {
								if at%every == 0 {
									b.BreakConnections()
								}
								if at%load == 0 {
									b.Update(labeled("a/one", fmt.Sprint(at)))
								}
							}
							time.Sleep(step)
							synctest.Wait()
							for _, b := range both {
								b.measure(t, step)
							}
						}
						our, their := both[0], both[1]
						lists, all := our.requests()
						theirLists, theirAll := their.requests()
						if lists > theirLists || all > theirAll || our.behind > their.behind {
							t.Errorf("%d lists and %d requests, behind for %v; client-go: %d, %d, %v",
								lists, all, our.behind, theirLists, theirAll, their.behind)
						}
						if all < int(duration/every)*len(our.informers) {
							t.Errorf("%d requests, the connections were not reset", all)
						}
					})
				})
			}
		}
	}
}
