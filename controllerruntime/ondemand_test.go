package tidingsruntime_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	tidingsruntime "github.com/tidings/tidings/controllerruntime"
	"github.com/tidings/tidings/tidingstest"
	"github.com/tidings/tidings/tidingstest/controlplane"
)

var (
	secretKind = corev1.SchemeGroupVersion.WithKind("Secret")
	onDemand   = cache.ByObject{Transform: tidingsruntime.OnDemand}
)

func secret(namespace, name, value string, labels ...string) *corev1.Secret {
	return &corev1.Secret{
		TypeMeta: typeMeta(secretKind),
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: name, Labels: pod("", "", labels...).Labels,
			Annotations: map[string]string{"issuer": "ca-" + namespace, corev1.LastAppliedConfigAnnotation: value},
		},
		Data: map[string][]byte{"value": []byte(value)}, Type: corev1.SecretTypeOpaque,
	}
}

func byIssuer(obj client.Object) []string { return []string{obj.GetAnnotations()["issuer"]} }

// TestOnDemandReadsAreTheSame makes the same reads of Secrets from controller-runtime's cache and from ours, on demand.
func TestOnDemandReadsAreTheSame(t *testing.T) {
	inWorlds := map[string]map[string]cache.Config{
		"all namespaces": nil, "two namespaces": {"a": {}, "b": {}},
		"all but one": {"a": {LabelSelector: selector("app=x")}, cache.AllNamespaces: {}},
	}
	for name, namespaces := range inWorlds {
		t.Run(name, func(t *testing.T) {
			bubble(t, tidingsruntime.NewCache, func(w *world) {
				for i := range 30 {
					w.Create(secret("abc"[i%3:i%3+1], fmt.Sprintf("s%02d", i), fmt.Sprint("v", i), "app",
						"xy"[i%2:i%2+1]))
				}
				ours := w.make(cache.Options{ByObject: map[client.Object]cache.ByObject{
					&corev1.Secret{}: {Transform: tidingsruntime.OnDemand, Namespaces: namespaces},
				}})
				w.newCache = newUpstream
				theirs := w.make(cache.Options{ByObject: map[client.Object]cache.ByObject{&corev1.Secret{}: {Namespaces: namespaces}}})
				for _, index := range []error{
					ours.IndexField(w.ctx(), asMetadata(secretKind), "issuer", byIssuer),
					theirs.IndexField(w.ctx(), &corev1.Secret{}, "issuer", byIssuer),
				} {
					if index != nil {
						w.Fatal(index)
					}
				}
				w.run(ours)
				w.run(theirs)
				w.compareReads(ours, theirs)
			})
		})
	}
}

func (w *world) compareReads(ours, theirs cache.Cache) {
	as := forms(secretKind)
	lists := map[string][]client.ListOption{
		"all": nil, "in a": {client.InNamespace("a")}, "labels": {client.MatchingLabels{"app": "x"}},
		"labels in b": {client.InNamespace("b"), client.MatchingLabels{"app": "y"}},
		"none":        {client.MatchingLabels{"app": "z"}},
		"in c":        {client.InNamespace("c")}, "continue": {client.Continue("token")},
		"no copy": {client.UnsafeDisableDeepCopy},
	}
	for _, form := range []string{"structured", "unstructured"} {
		for name, opts := range lists {
			_, got := as[form]()
			_, want := as[form]()
			errOurs, errTheirs := ours.List(w.ctx(), got, opts...), theirs.List(w.ctx(), want, opts...)
			if (errOurs == nil) != (errTheirs == nil) ||
				name != "no copy" && !slices.Equal(bodiesOf(got), bodiesOf(want)) {
				w.Errorf("%s %s: got %v, %v\nwant %v, %v", form, name, bodiesOf(got), errOurs, bodiesOf(want),
					errTheirs)
			}
		}
		for _, key := range []client.ObjectKey{
			{Namespace: "a", Name: "s00"}, {Namespace: "a", Name: "s03"}, {Namespace: "b", Name: "s01"},
			{Namespace: "c", Name: "s02"}, {Namespace: "a", Name: "none"},
		} {
			got, _ := as[form]()
			want, _ := as[form]()
			errOurs, errTheirs := ours.Get(w.ctx(), key, got), theirs.Get(w.ctx(), key, want)
			if fmt.Sprint(errOurs) != fmt.Sprint(errTheirs) ||
				apierrors.IsNotFound(errOurs) != apierrors.IsNotFound(errTheirs) || !reflect.DeepEqual(got, want) {
				w.Errorf("%s %v: got %v, %v\nwant %v, %v", form, key, got, errOurs, want, errTheirs)
			}
		}
	}
	// The index is over the metadata of ours, and over the typed objects of theirs.
	var got, want corev1.SecretList
	indexed := []client.ListOption{client.InNamespace("a"), client.MatchingFields{"issuer": "ca-a"}}
	if err := errors.Join(ours.List(w.ctx(), &got, indexed...), theirs.List(w.ctx(), &want, indexed...)); err != nil ||
		len(got.Items) == 0 {
		w.Error(len(got.Items), err)
	}
	if !slices.Equal(bodiesOf(&got), bodiesOf(&want)) {
		w.Errorf("by index: got %v, want %v", bodiesOf(&got), bodiesOf(&want))
	}
}

// bodiesOf returns the items of a list, in a comparable form, and sorted, as controller-runtime's are in random order.
func bodiesOf(list client.ObjectList) (all []string) {
	value := reflect.ValueOf(list).Elem().FieldByName("Items")
	for i := range value.Len() {
		all = append(all, fmt.Sprintf("%+v", value.Index(i)))
	}
	slices.Sort(all)
	return append(all, "continue "+list.GetContinue())
}

func TestOnDemandRequests(t *testing.T) {
	bubble(t, tidingsruntime.WithOnDemand(tidingsruntime.NewCache), func(w *world) {
		for i := range 100 {
			w.Create(secret("a", fmt.Sprintf("s%02d", i), fmt.Sprint("v", i)))
		}
		w.Create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "c"},
			Data: map[string]string{"k": "v"}})
		c := w.start(cache.Options{})
		get := func(name, want string) {
			w.Helper()
			var s corev1.Secret
			if err := c.Get(w.ctx(), client.ObjectKey{Namespace: "a", Name: name}, &s); err != nil ||
				string(s.Data["value"]) != want {
				w.Errorf("%s: %q, %v, want %q", name, s.Data["value"], err, want)
			}
			s.Data["value"][0] = 'X' // the object is the caller's
		}
		for range 10 {
			for i := range 20 {
				get(fmt.Sprintf("s%02d", i), fmt.Sprint("v", i))
			}
		}
		if n := w.Count(tidingstest.Get); n != 20 {
			w.Errorf("%d requests for 20 Secrets", n)
		}
		w.Update(secret("a", "s03", "new"))
		w.settle()
		get("s03", "new")
		var m metav1.PartialObjectMetadata
		m.SetGroupVersionKind(secretKind)
		if err := c.Get(w.ctx(), client.ObjectKey{Namespace: "a", Name: "s50"}, &m); err != nil ||
			m.Annotations[corev1.LastAppliedConfigAnnotation] != "" {
			w.Errorf("metadata: %v, %v", m.Annotations, err)
		}
		var configs corev1.ConfigMapList
		if err := c.List(w.ctx(), &configs); err != nil || len(configs.Items) != 1 ||
			configs.Items[0].Data["k"] != "v" {
			w.Errorf("ConfigMaps: %v, %v", configs.Items, err)
		}
		if n := w.Count(tidingstest.Get); n != 22 { // the update, and the ConfigMap
			w.Errorf("%d requests, want 22", n)
		}
		watches := map[string]int{}
		for _, r := range append(w.Requests(tidingstest.Watch), w.Requests(tidingstest.WatchList)...) {
			watches[r.Resource.Resource]++
		}
		if !maps.Equal(watches, map[string]int{"secrets": 1, "configmaps": 1}) {
			w.Errorf("watches: %v", watches)
		}
	})
}

// TestOnDemandHoldsAll: Secrets that are read again and again, each time in another version, are held in full, unless the
// mark says never.
func TestOnDemandHoldsAll(t *testing.T) {
	for name, mark := range map[string]toolscache.TransformFunc{
		"OnDemand": tidingsruntime.OnDemand, "OnDemandOnly": tidingsruntime.OnDemandOnly,
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, tidingsruntime.NewCache, func(w *world) {
				const n = 150
				for i := range n {
					w.Create(secret("a", fmt.Sprint(i), "0"))
				}
				c := w.start(cache.Options{ByObject: map[client.Object]cache.ByObject{&corev1.Secret{}: {Transform: mark}}})
				var requests int
				for round := range 4 {
					before := w.Count(tidingstest.Get)
					for i := range n {
						w.Update(secret("a", fmt.Sprint(i), fmt.Sprint(round)))
					}
					w.settle()
					for i := range n {
						var s corev1.Secret
						key := client.ObjectKey{Namespace: "a", Name: fmt.Sprint(i)}
						if err := c.Get(w.ctx(), key, &s); err != nil || string(s.Data["value"]) != fmt.Sprint(round) {
							w.Fatalf("%v: %q, %v", key, s.Data["value"], err)
						}
						s.Data["value"][0] = 'X' // the object is the caller's
					}
					requests = w.Count(tidingstest.Get) - before
				}
				if held := requests == 0; held != (name == "OnDemand") {
					w.Errorf("%d requests in the last round", requests)
				}
			})
		})
	}
}

func TestOnDemandHandlers(t *testing.T) {
	bubble(t, tidingsruntime.NewCache, func(w *world) {
		w.Create(secret("a", "one", "v"))
		c := w.start(cache.Options{ByObject: map[client.Object]cache.ByObject{&corev1.Secret{}: onDemand}})
		kinds := make(chan string, 10)
		for _, get := range []func() (cache.Informer, error){
			func() (cache.Informer, error) { return c.GetInformer(w.ctx(), &corev1.Secret{}) },
			func() (cache.Informer, error) { return c.GetInformer(w.ctx(), asUnstructured(secretKind)) },
			func() (cache.Informer, error) { return c.GetInformerForKind(w.ctx(), secretKind) },
		} {
			inf, err := get()
			if err != nil {
				w.Fatal(err)
			}
			w.handle(inf, toolscache.ResourceEventHandlerFuncs{AddFunc: func(obj any) {
				kinds <- fmt.Sprintf("%T %s", obj, obj.(client.Object).GetObjectKind().GroupVersionKind().Kind)
			}}, toolscache.HandlerOptions{})
			if got := <-kinds; got != "*v1.PartialObjectMetadata Secret" {
				w.Errorf("the handler got a %s", got)
			}
		}
		if st, _ := tidingsruntime.Status(c); len(st) != 1 || st[0].Objects != 1 {
			w.Errorf("informers: %+v", st)
		}
		if err := c.RemoveInformer(w.ctx(), &corev1.Secret{}); err != nil {
			w.Error(err)
		}
		if st, _ := tidingsruntime.Status(c); len(st) != 0 {
			w.Errorf("after the removal: %+v", st)
		}
		var s corev1.Secret
		if err := c.Get(w.ctx(), client.ObjectKey{Namespace: "a", Name: "one"}, &s); err != nil ||
			string(s.Data["value"]) != "v" {
			w.Errorf("read again: %v, %v", s.Data, err)
		}
	})
}

func TestOnDemandRefusals(t *testing.T) {
	bubble(t, tidingsruntime.NewCache, func(w *world) {
		for problem, opts := range map[string]cache.Options{
			"default for all kinds":   {DefaultTransform: tidingsruntime.OnDemand},
			"default for all kinds; ": {DefaultNamespaces: map[string]cache.Config{"a": {Transform: tidingsruntime.OnDemand}}},
			"in some namespaces only": {ByObject: map[client.Object]cache.ByObject{
				&corev1.Secret{}: {Namespaces: map[string]cache.Config{"a": {Transform: tidingsruntime.OnDemand}}},
			}},
		} {
			opts.Scheme = testScheme
			if _, err := w.newCache(w.config, opts); err == nil ||
				!strings.Contains(err.Error(), strings.TrimSuffix(problem, "; ")) {
				w.Errorf("%s: %v", problem, err)
			}
		}
		own := func(in any) (any, error) { return in, nil }
		w.newCache = tidingsruntime.WithOnDemand(tidingsruntime.NewCache, &corev1.Secret{}, &corev1.Pod{})
		c := w.make(cache.Options{ByObject: map[client.Object]cache.ByObject{&corev1.Pod{}: {Transform: own}}})
		if err := c.IndexField(w.ctx(), &corev1.Pod{}, "issuer", byIssuer); err != nil {
			w.Errorf("an index of a kind that is held: %v", err)
		}
		err := c.IndexField(w.ctx(), &corev1.Secret{}, "issuer", byIssuer)
		if err == nil || !strings.Contains(err.Error(), "PartialObjectMetadata") {
			w.Errorf("an index over bodies: %v", err)
		}
		w.newCache = tidingsruntime.WithOnDemand(tidingsruntime.NewCache, &notRegistered{})
		if _, err := w.newCache(w.config, cache.Options{}); err == nil {
			w.Error("marked a kind that is not in the scheme")
		}
	})
}

type notRegistered struct{ corev1.Pod }

func TestOnDemandErrors(t *testing.T) {
	bubble(t, tidingsruntime.NewCache, func(w *world) {
		w.Create(secret("a", "one", "v"))
		byObject := map[client.Object]cache.ByObject{&corev1.Secret{}: onDemand}
		key := client.ObjectKey{Namespace: "a", Name: "one"}
		c := w.make(cache.Options{ByObject: byObject})
		var notStarted *cache.ErrCacheNotStarted
		if err := c.Get(w.ctx(), key, &corev1.Secret{}); !errors.As(err, &notStarted) {
			w.Errorf("before the start: %v", err)
		}
		only := w.start(cache.Options{ByObject: byObject, ReaderFailOnMissingInformer: true})
		var notCached *cache.ErrResourceNotCached
		if err := only.List(w.ctx(), &corev1.SecretList{}); !errors.As(err, &notCached) {
			w.Errorf("without an informer: %v", err)
		}
		w.informer(only, &corev1.Secret{})
		want(w, "with one", w.names(only, &corev1.SecretList{}), []string{"a/one"})

		w.Create(secret("a", "two", "v"))
		w.settle()
		key.Name = "two"
		forbidden := tidingstest.Fault{Resource: "secrets",
			Err: apierrors.NewForbidden(corev1.Resource("secrets"), "", errors.New("no"))}
		w.InjectAlways(tidingstest.Get, forbidden)
		err := only.Get(w.ctx(), key, &corev1.Secret{})
		if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), `verb get on secrets in namespace "a"`) {
			w.Errorf("without get: %v", err)
		}
		w.InjectAlways(tidingstest.Any, forbidden)
		c = w.make(cache.Options{ByObject: byObject})
		ctx, cancel := context.WithTimeout(w.ctx(), time.Minute)
		defer cancel()
		go func() { _ = c.Start(ctx) }()
		w.settle()
		brief, cancelBrief := context.WithTimeout(ctx, 10*time.Second)
		defer cancelBrief()
		err = c.Get(brief, key, &corev1.Secret{})
		if err == nil || !strings.Contains(err.Error(), "verbs list and watch") ||
			!strings.Contains(err.Error(), "forbidden") {
			w.Errorf("without list and watch: %v", err)
		}
		cancel()
		w.settle()
	})
}

// TestOnDemandOnControlPlane runs a manager whose reconciler reads Secrets on demand, against a real API server.
func TestOnDemandOnControlPlane(t *testing.T) {
	if testing.Short() {
		t.Skip("needs a control plane")
	}
	plane := controlplane.Start(t, controlplane.Options{})
	ctx, cancel := context.WithCancel(t.Context())
	direct, err := client.New(plane.Config(), client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	mgr, err := ctrl.NewManager(plane.Config(), ctrl.Options{
		NewCache: tidingsruntime.WithOnDemand(tidingsruntime.NewCache), Metrics: metricsserver.Options{BindAddress: "0"},
	})
	if err != nil {
		t.Fatal(err)
	}
	read := make(chan string, 100)
	reconciler := reconcile.Func(func(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
		var s corev1.Secret
		if err := mgr.GetClient().Get(ctx, request.NamespacedName, &s); err != nil {
			return reconcile.Result{}, client.IgnoreNotFound(err)
		}
		read <- s.Name + "=" + string(s.Data["value"])
		return reconcile.Result{}, nil
	})
	err = ctrl.NewControllerManagedBy(mgr).Named("secrets").
		Watches(&corev1.Secret{}, &handler.EnqueueRequestForObject{}).Complete(reconciler)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	defer func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	s := secret("default", "one", "first")
	if err := direct.Create(ctx, s); err != nil {
		t.Fatal(err)
	}
	waitFor(t, read, "one=first")
	s.Data["value"] = []byte("second")
	if err := direct.Update(ctx, s); err != nil {
		t.Fatal(err)
	}
	waitFor(t, read, "one=second")
	var list corev1.SecretList
	if err := mgr.GetClient().List(ctx, &list, client.InNamespace("default")); err != nil || len(list.Items) != 1 {
		t.Errorf("%d items, %v", len(list.Items), err)
	}
	if st, _ := tidingsruntime.Status(mgr.GetCache()); len(st) != 1 ||
		!strings.Contains(st[0].Type, "PartialObjectMetadata") {
		t.Errorf("informers: %+v", st)
	}
}

func waitFor(t *testing.T, read <-chan string, want string) {
	t.Helper()
	timeout := time.After(time.Minute)
	for {
		select {
		case got := <-read:
			if got == want {
				return
			}
		case <-timeout:
			t.Fatalf("nobody has read %s", want)
		}
	}
}
