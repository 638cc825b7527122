package clientgo_test

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/tidings/tidings/clientgo"
	"github.com/tidings/tidings/tidingstest"
)

// setClient and discoveringClientset are what client-gen makes: with discovery over the connections of all groups.
type setClient interface {
	widgetClient
	Discovery() discovery.DiscoveryInterface
}

type discoveringClientset struct {
	*widgetClientset
	discovery *discovery.DiscoveryClient
}

func newClientset(config *rest.Config) (*discoveringClientset, error) {
	widgets, err := newWidgetClientset(config)
	discovered, err2 := discovery.NewDiscoveryClientForConfig(config)
	return &discoveringClientset{widgets, discovered}, errors.Join(err, err2)
}

func (c *discoveringClientset) Discovery() discovery.DiscoveryInterface {
	if c == nil {
		return nil
	}
	return c.discovery
}

// observedClientset is a client of a program that counts calls.
type observedClientset struct {
	setClient
	calls *int
}

func (c observedClientset) Widgets(namespace string) widgetInterface {
	*c.calls++
	return c.setClient.Widgets(namespace)
}

// fakeClientset answers without requests.
type fakeClientset struct{ widgets []Widget }

func (c fakeClientset) Discovery() discovery.DiscoveryInterface { return nil }

func (c fakeClientset) Widgets(string) widgetInterface { return c }

func (fakeClientset) IsWatchListSemanticsUnSupported() bool { return true }

func (c fakeClientset) List(context.Context, metav1.ListOptions) (*WidgetList, error) {
	return &WidgetList{ListMeta: metav1.ListMeta{ResourceVersion: "1"}, Items: c.widgets}, nil
}

func (fakeClientset) Watch(context.Context, metav1.ListOptions) (watch.Interface, error) {
	return watch.NewFake(), nil
}

type newSetInformerFunc func(setClient, time.Duration) cache.SharedIndexInformer

// setFactory is a generated factory as tidings migrate writes it.
type setFactory struct {
	*clientgo.GroupFactory[newSetInformerFunc, setClient]
}

func newSetFactory(client setClient, resync time.Duration, options ...clientgo.Option) setFactory {
	return setFactory{clientgo.NewGroupFactoryFromClient[newSetInformerFunc](client, newClientset, resync, options...)}
}

func (f setFactory) Widgets() *widgetGroupInformers {
	return newWidgetGroup(setGroup(f), f.Namespace(), f.TweakListOptions())
}

func (f setFactory) ForResource(resource schema.GroupVersionResource) (informers.GenericInformer, error) {
	generic := func(client setClient, resync time.Duration) (informers.GenericInformer, error) {
		if resource != widgetResource {
			return nil, errors.New("no informer found")
		}
		inf := newFilteredWidgetInformer(client, f.Namespace(), resync, cache.Indexers{}, f.TweakListOptions(), nil)
		return genericWidgets{inf}, nil
	}
	return f.GroupFactory.ForResource(resource, generic)
}

// setGroup lets the group of the generated package have the factory, whose functions take another client's type.
type setGroup struct {
	*clientgo.GroupFactory[newSetInformerFunc, setClient]
}

func (g setGroup) InformerFor(obj runtime.Object, newFunc newWidgetInformerFunc) cache.SharedIndexInformer {
	return g.GroupFactory.InformerFor(obj, func(client setClient, resync time.Duration) cache.SharedIndexInformer {
		return newFunc(client, resync)
	})
}

type genericWidgets struct{ cache.SharedIndexInformer }

func (g genericWidgets) Informer() cache.SharedIndexInformer { return g.SharedIndexInformer }
func (g genericWidgets) Lister() cache.GenericLister {
	return cache.NewGenericLister(g.GetIndexer(), widgetResource.GroupResource())
}

// A factory over a generated clientset reads the server over the clientset's connections, and gives the accessors the
// namespace and the list options of its own options; the other options are the factory's.
func TestGroupFactoryFromClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newWidgetServer(t,
			widget("shop", "one", "web", 3), widget("shop", "two", "db", 4), widget("other", "three", "web", 5))
		config, agents := server.Config(), map[string]bool{}
		config.UserAgent = "program/1"
		config.Wrap(func(next http.RoundTripper) http.RoundTripper { return notingAgents{next, agents} })
		client, err := newClientset(config)
		must(t, err)
		f := newSetFactory(client, 0,
			clientgo.WithNamespace("shop"), clientgo.WithInformerName(named(t, "generated")),
			clientgo.WithTweakListOptions(func(opts *metav1.ListOptions) {
				opts.LabelSelector, opts.ResourceVersion = "app=web", "0"
			}),
			clientgo.WithTransform(func(obj any) (any, error) {
				obj.(*Widget).Annotations = map[string]string{"seen": "yes"}
				return obj, nil
			}),
			clientgo.WithCustomResyncConfig(map[metav1.Object]time.Duration{&Widget{}: time.Minute}))
		widgets := f.Widgets()
		inf := widgets.Informer()
		if _, ours := clientgo.NativeInformer(inf); !ours {
			t.Errorf("the informer is a %T, not ours", inf)
		}
		generic, err := f.ForResource(widgetResource)
		if err != nil || generic.Informer() != inf {
			t.Errorf("ForResource returns another informer, or %v", err)
		}
		if _, err := f.ForResource(schema.GroupVersionResource{Resource: "pods"}); err == nil {
			t.Error("ForResource has an informer that the generated factory has not")
		}
		updates := 0
		_, err = inf.AddEventHandler(cache.ResourceEventHandlerFuncs{UpdateFunc: func(_, _ any) { updates++ }})
		must(t, err)
		startFactory(t, f)
		all, err := widgets.Lister().In("shop")
		if err != nil || len(all) != 1 {
			t.Fatalf("the lister lists %v, %v", all, err)
		}
		if w := all[0]; w.Name != "one" || w.Spec.Size != 3 || w.Annotations["seen"] != "yes" {
			t.Errorf("the lister lists %v", w)
		}
		time.Sleep(150 * time.Second)
		synctest.Wait()
		if updates != 2 {
			t.Errorf("%d updates, want two resyncs", updates)
		}
		for _, part := range f.Native().Status()[0].Parts {
			if part.Source.FromFunctions != "" {
				t.Errorf("the functions are not read through: %s", part.Source.FromFunctions)
			}
		}
		if len(agents) != 1 || !agents["program/1"] {
			t.Errorf("the user agents are %v", agents)
		}
	})
}

type notingAgents struct {
	http.RoundTripper
	agents map[string]bool
}

func (n notingAgents) RoundTrip(request *http.Request) (*http.Response, error) {
	n.agents[request.Header.Get("User-Agent")] = true
	return n.RoundTripper.RoundTrip(request)
}

// ForResource makes the informer if nobody has asked for it before.
func TestGroupFactoryForResource(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newWidgetServer(t, widget("shop", "one", "web", 3), widget("other", "two", "web", 3))
		client, err := newClientset(server.Config())
		must(t, err)
		f := newSetFactory(client, 0, clientgo.WithNamespace("shop"))
		generic, err := f.ForResource(widgetResource)
		must(t, err)
		if _, ours := clientgo.NativeInformer(generic.Informer()); !ours || f.Widgets().Informer() != generic.Informer() {
			t.Error("the informer is not ours, or the accessor returns another")
		}
		startFactory(t, f)
		if got := keysOf(t, generic.Informer().GetStore().List()); !slices.Equal(got, []string{"shop/one"}) {
			t.Errorf("the informer has %v", got)
		}
		if obj, err := generic.Lister().ByNamespace("shop").Get("one"); err != nil || obj.(*Widget).Name != "one" {
			t.Errorf("the lister finds %v, %v", obj, err)
		}
	})
}

// Over a client that is not the generated clientset, informers are those of the generated functions, with the factory's
// options.
func TestGroupFactoryFromForeignClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newWidgetServer(t)
		real, err := newClientset(server.Config())
		must(t, err)
		one := Widget{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "one", ResourceVersion: "1"}}
		for name, client := range map[string]setClient{
			"fake": fakeClientset{[]Widget{one}}, "nil": (*discoveringClientset)(nil),
			"wrapper": observedClientset{real, new(int)},
		} {
			f := newSetFactory(client, 0, clientgo.WithTransform(func(obj any) (any, error) {
				obj.(*Widget).Labels = map[string]string{"seen": "yes"}
				return obj, nil
			}))
			inf := f.Widgets().Informer()
			generic, err := f.ForResource(widgetResource)
			if err != nil || generic.Informer() != inf {
				t.Errorf("%s: ForResource returns another informer, or %v", name, err)
			}
			if _, ours := clientgo.NativeInformer(inf); ours || len(clientgo.OnUpstreamEngine(f)) != 1 {
				t.Errorf("%s: the informer is a %T, said to be upstream's: %v", name, inf, clientgo.OnUpstreamEngine(f))
			}
			if name != "fake" {
				continue
			}
			startFactory(t, f)
			if all := inf.GetStore().List(); len(all) != 1 || all[0].(*Widget).Labels["seen"] != "yes" {
				t.Errorf("%s: the informer has %v", name, all)
			}
		}
		if n := len(server.Requests(tidingstest.Any)); n != 0 {
			t.Errorf("%d requests before the start", n)
		}
	})
}

// A client around a clientset is called, and read through if the clientset's config was wrapped.
func TestGroupFactoryFromWrappedClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		real, err := newClientset(clientgo.Wrap(newWidgetServer(t, widget("shop", "one", "web", 3)).Config()))
		must(t, err)
		calls := 0
		f := newSetFactory(observedClientset{real, &calls}, 0)
		inf := f.Widgets().Informer()
		startFactory(t, f)
		if got := keysOf(t, inf.GetStore().List()); !slices.Equal(got, []string{"shop/one"}) || calls < 2 {
			t.Errorf("the informer has %v after %d calls", got, calls)
		}
		if _, ours := clientgo.NativeInformer(inf); !ours || f.Native().Status()[0].Parts[0].Source.FromFunctions != "" {
			t.Errorf("the informer is a %T: %+v", inf, f.Native().Status())
		}
	})
}

// A config that is wrapped twice is read through as one that is wrapped once.
func TestWrappedTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, err := newClientset(clientgo.Wrap(newWidgetServer(t, widget("shop", "one", "web", 3)).Config()))
		must(t, err)
		f := newSetFactory(client, 0) // wraps the clientset's transport once more
		inf := f.Widgets().Informer()
		startFactory(t, f)
		if got := keysOf(t, inf.GetStore().List()); !slices.Equal(got, []string{"shop/one"}) {
			t.Errorf("the informer has %v", got)
		}
		if why := f.Native().Status()[0].Parts[0].Source.FromFunctions; why != "" {
			t.Errorf("the functions are not read through: %s", why)
		}
	})
}
