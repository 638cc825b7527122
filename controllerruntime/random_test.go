package tidingsruntime_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tidings/tidings/internal/testseed"
	"github.com/tidings/tidings/tidingstest"
)

// TestRandomOptions gives both kinds of cache the same random options and the same random changes.
// They must give the same answers.
func TestRandomOptions(t *testing.T) {
	testseed.Each(t, 8, func(t *testing.T, seed uint64) {
		answers := map[string][]string{}
		for name := range newCaches {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, tidingstest.ServerOptions{NoWatchList: true}, name) // see TestBookmarks
				answers[name] = randomRun(w, rand.New(rand.NewPCG(seed, 0)))
			})
		}
		want := answers["controller-runtime"]
		for name, got := range answers {
			for i := range min(len(got), len(want)) {
				if got[i] != want[i] {
					t.Errorf("%s: got  %s\nwant %s", name, got[i], want[i])
				}
			}
			if len(got) != len(want) || len(got) == 0 {
				t.Errorf("%s: %d answers, want %d", name, len(got), len(want))
			}
		}
	})
}

var (
	randomNamespaces = []string{"a", "b", "c"}
	randomKinds      = []schema.GroupVersionKind{podKind, nodeKind, widgetKind}
)

// randomRun returns the answers of a cache with random options.
func randomRun(w *world, r *rand.Rand) (answers []string) {
	for range 20 {
		randomChange(w, r)
	}
	opts := randomOptions(r)
	opts.Scheme = testScheme
	c, err := w.newCache(w.config, opts)
	if err != nil {
		return []string{"new: " + err.Error()}
	}
	indexed := randomKinds[r.IntN(len(randomKinds))]
	obj, _ := forms(indexed)["structured"]()
	if err := c.IndexField(w.ctx(), obj, "app", func(obj client.Object) []string { return []string{obj.GetLabels()["app"]} }); err != nil {
		answers = append(answers, "index: "+err.Error())
	}
	w.run(c)
	for range 3 {
		for _, kind := range randomKinds {
			for _, form := range slices.Sorted(maps.Keys(forms(kind))) {
				answers = append(answers, w.randomAnswers(c, kind, form)...)
			}
		}
		for range 10 {
			randomChange(w, r)
		}
		w.settle()
	}
	return answers
}

// randomAnswers asks a cache for the objects of a kind in all possible ways.
func (w *world) randomAnswers(c cache.Cache, kind schema.GroupVersionKind, form string) (answers []string) {
	ctx, cancel := context.WithCancel(w.ctx())
	defer cancel()
	for _, namespace := range append(randomNamespaces, "") {
		for name, opt := range map[string]client.ListOption{
			"": client.InNamespace(""), " by label": client.MatchingLabels{"app": "x"}, " by field": client.MatchingFields{"app": "x"},
		} {
			_, list := forms(kind)[form]()
			found, err := namesOf(ctx, c, list, opt, client.InNamespace(namespace))
			answers = append(answers, fmt.Sprintf("list %s %s in %q%s: %v, %v", form, kind.Kind, namespace, name, found, err))
		}
		obj, _ := forms(kind)[form]()
		err := c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "one"}, obj)
		answers = append(answers, fmt.Sprintf("get %s %s in %q: %v %v, %v", form, kind.Kind, namespace, obj.GetLabels(), obj.GetAnnotations(), err))
	}
	slices.Sort(answers)
	return answers
}

// randomChange creates, changes or deletes an object.
func randomChange(w *world, r *rand.Rand) {
	namespace, name := randomNamespaces[r.IntN(3)], []string{"one", "two", "three"}[r.IntN(3)]
	labels := []string{"app", []string{"x", "y", "z"}[r.IntN(3)]}
	var obj client.Object
	switch kind := randomKinds[r.IntN(3)]; kind {
	case podKind:
		obj = pod(namespace, name, labels...)
	case nodeKind:
		namespace, obj = "", node(name, labels...)
	default:
		obj = &Widget{TypeMeta: typeMeta(widgetKind), ObjectMeta: pod(namespace, name, labels...).ObjectMeta}
	}
	held := w.holds(obj, namespace, name)
	switch {
	case !held:
		w.Create(obj)
	case r.IntN(3) == 0:
		w.Delete(obj)
	default:
		w.Update(obj)
	}
}

// holds reports whether the server has an object of the type and key of obj.
func (w *world) holds(obj client.Object, namespace, name string) bool {
	resource := map[string]schema.GroupVersionResource{
		"*v1.Pod": corev1.SchemeGroupVersion.WithResource("pods"), "*v1.Node": corev1.SchemeGroupVersion.WithResource("nodes"),
	}[fmt.Sprintf("%T", obj)]
	if resource.Empty() {
		resource = widgets.WithResource("widgets")
	}
	for key := range w.Versions(resource) {
		if key.Namespace == namespace && key.Name == name {
			return true
		}
	}
	return false
}

func randomOptions(r *rand.Rand) cache.Options {
	opts := cache.Options{
		DefaultLabelSelector: randomSelector(r), DefaultFieldSelector: randomFields(r), DefaultTransform: randomTransform(r), DefaultNamespaces: randomConfigs(r),
		DefaultUnsafeDisableDeepCopy: randomFlag(r), DefaultEnableWatchBookmarks: randomFlag(r), ReaderFailOnMissingInformer: r.IntN(10) == 0,
		ByObject: map[client.Object]cache.ByObject{},
	}
	for _, obj := range []client.Object{&corev1.Pod{}, &corev1.Node{}, &Widget{}} {
		if r.IntN(2) == 0 {
			continue
		}
		by := cache.ByObject{
			Label: randomSelector(r), Field: randomFields(r), Transform: randomTransform(r), UnsafeDisableDeepCopy: randomFlag(r), EnableWatchBookmarks: randomFlag(r),
		}
		_, isNode := obj.(*corev1.Node)
		if !isNode || r.IntN(10) == 0 {
			by.Namespaces = randomConfigs(r)
		}
		if !isNode && r.IntN(7) == 0 { // of nodes, a server refuses it, and controller-runtime's cache waits for ever
			by.Field = fields.OneTermEqualSelector("metadata.namespace", "a")
		}
		opts.ByObject[obj] = by
	}
	return opts
}

func randomConfigs(r *rand.Rand) map[string]cache.Config {
	if r.IntN(2) == 0 {
		return nil
	}
	configs := map[string]cache.Config{}
	for _, namespace := range append(randomNamespaces, cache.AllNamespaces) {
		if r.IntN(2) == 0 {
			configs[namespace] = cache.Config{
				LabelSelector: randomSelector(r), FieldSelector: randomFields(r), Transform: randomTransform(r), UnsafeDisableDeepCopy: randomFlag(r),
				EnableWatchBookmarks: randomFlag(r),
			}
		}
	}
	return configs
}

func randomSelector(r *rand.Rand) labels.Selector {
	return []labels.Selector{nil, nil, nil, labels.Everything(), selector("app=x"), selector("app!=y"), selector("app in (x,z)"), labels.Nothing()}[r.IntN(8)]
}

func randomFields(r *rand.Rand) fields.Selector {
	return []fields.Selector{
		nil, nil, nil, fields.Everything(),
		fields.OneTermEqualSelector("metadata.name", "one"), fields.OneTermNotEqualSelector("metadata.name", "two"),
	}[r.IntN(6)]
}

func randomTransform(r *rand.Rand) toolscache.TransformFunc {
	n := fmt.Sprint(r.IntN(100))
	return []toolscache.TransformFunc{nil, nil, cache.TransformStripManagedFields(), func(in any) (any, error) {
		in.(client.Object).SetAnnotations(map[string]string{"transform": n})
		return in, nil
	}}[r.IntN(4)]
}

func randomFlag(r *rand.Rand) *bool {
	return []*bool{nil, nil, ptr.To(true), ptr.To(false)}[r.IntN(4)]
}
