package clientgo_test

import (
	"slices"
	"testing"
	"testing/synctest"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/sharding"
	"k8s.io/client-go/features"
	featurestesting "k8s.io/client-go/features/testing"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/tidings/tidings"
	"github.com/tidings/tidings/clientgo"
	"github.com/tidings/tidings/tidingstest"
)

// podsOf runs a factory's informer of pods until it has synced.
func podsOf(t *testing.T, server *tidingstest.Server, options ...clientgo.Option) cache.SharedIndexInformer {
	client := kubernetes.NewForConfigOrDie(server.Config())
	inf := clientgo.NewSharedInformerFactoryFromClient(client, 0, options...).Core().V1().Pods().Informer()
	run(t, inf)
	if !cache.WaitFor(t.Context(), "", inf.HasSyncedChecker()) {
		t.Fatal("not synced")
	}
	synctest.Wait()
	return inf
}

// TestFirstListFromCache: the first list takes what the server's cache has if the program says so, with the option or as
// it told client-go. No other request does.
func TestFirstListFromCache(t *testing.T) {
	recent := func(o *metav1.ListOptions) { o.ResourceVersion = "0" }
	for name, tt := range map[string]struct {
		option clientgo.Option
		first  string
	}{
		"by default":         {clientgo.WithNamespace(""), ""},
		"the option":         {clientgo.WithOptions(tidings.Options{FirstFromCache: true}), "0"},
		"list options":       {clientgo.WithTweakListOptions(recent), "0"},
		"other list options": {clientgo.WithTweakListOptions(func(o *metav1.ListOptions) { o.LabelSelector = "a=b" }), ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := tidingstest.NewServer(t, tidingstest.ServerOptions{NoWatchList: true})
				server.Create(pod("a/one"))
				podsOf(t, server, tt.option)
				server.InjectAlways(tidingstest.Watch, tidingstest.Fault{Err: apierrors.NewResourceExpired("old")})
				server.BreakConnections() // and so it lists again
				if err := server.WaitRequests(t.Context(), tidingstest.List, 2); err != nil {
					t.Fatal(err)
				}
				var versions []string
				for _, r := range server.Requests(tidingstest.List) {
					versions = append(versions, r.Query.Get("resourceVersion"))
				}
				if versions[0] != tt.first || versions[1] == "0" || versions[1] == "" {
					t.Errorf("the lists asked for versions %q, the first has to ask for %q", versions, tt.first)
				}
			})
		})
	}
}

// TestFactoryObeysGate: a factory over a clientset streams nothing with client-go's feature gate off.
func TestFactoryObeysGate(t *testing.T) {
	for _, on := range []bool{true, false} {
		featurestesting.SetFeatureDuringTest(t, features.WatchListClient, on)
		synctest.Test(t, func(t *testing.T) {
			server := tidingstest.NewServer(t, tidingstest.ServerOptions{})
			podsOf(t, server)
			if streams, lists := server.Count(tidingstest.WatchList), server.Count(tidingstest.List); streams > 0 != on || lists > 0 == on {
				t.Errorf("gate %t: %d streams and %d lists", on, streams, lists)
			}
		})
	}
}

// TestShardSelector: an informer with a shard selector asks for the shard, and holds nothing else from a server that
// ignores that.
func TestShardSelector(t *testing.T) {
	for _, noWatchList := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			server := tidingstest.NewServer(t, tidingstest.ServerOptions{NoWatchList: noWatchList})
			for _, name := range []string{"a", "b", "c", "d", "e", "f", "g", "h"} {
				server.Create(pod("a/" + name))
			}
			var hashes []string
			for _, obj := range server.Objects(pods) {
				hashes = append(hashes, sharding.HashField(string(obj.GetUID())))
			}
			slices.Sort(hashes)
			low := sharding.NewSelector(sharding.ShardRangeRequirement{
				Key: "object.metadata.uid", Start: "0x0000000000000000", End: "0x" + hashes[len(hashes)/2],
			})
			inf := podsOf(t, server, clientgo.WithShardSelector(low))
			for _, name := range []string{"i", "j", "k", "l", "m", "n", "o", "p"} {
				server.Create(pod("a/" + name))
			}
			synctest.Wait()
			want := 0
			for _, obj := range server.Objects(pods) {
				if belongs, err := low.Matches(obj); err != nil {
					t.Fatal(err)
				} else if belongs {
					want++
				}
			}
			if got := len(inf.GetStore().List()); got != want || want == 0 || want == 16 {
				t.Errorf("it holds %d pods, want %d of 16", got, want)
			}
			for _, kind := range []tidingstest.RequestKind{tidingstest.List, tidingstest.WatchList, tidingstest.Watch} {
				for _, r := range server.Requests(kind) {
					if got := r.Query.Get("shardSelector"); got != low.String() {
						t.Errorf("a %s asked for %q", kind, got)
					}
				}
			}
			// The typed informers of client-go 0.37 hide the method.
			setter, ok := inf.(interface {
				SetShardSelector(sharding.Selector) error
			})
			if ok && setter.SetShardSelector(low) == nil {
				t.Error("the selector was changed after the start")
			}
		})
	}
}
