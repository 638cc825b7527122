package tidingsruntime_test

import (
	"context"
	"errors"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tidings/tidings/tidingstest"
)

// fill creates pods, a node and widgets.
func (w *world) fill() {
	w.Create(pod("a", "one", "app", "x"))
	w.Create(pod("a", "two", "app", "y"))
	w.Create(pod("b", "one", "app", "x"))
	w.Create(node("n"))
	w.Create(&Widget{TypeMeta: typeMeta(widgetKind), ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "w"}, Spec: WidgetSpec{Size: 3}})
}

func typeMeta(kind schema.GroupVersionKind) metav1.TypeMeta {
	apiVersion, name := kind.ToAPIVersionAndKind()
	return metav1.TypeMeta{APIVersion: apiVersion, Kind: name}
}

func TestReads(t *testing.T) {
	onBoth(t, tidingstest.ServerOptions{}, func(w *world) {
		w.fill()
		c := w.start(cache.Options{})
		for _, kind := range []schema.GroupVersionKind{podKind, nodeKind, widgetKind} {
			key := map[string]client.ObjectKey{
				"Pod": {Namespace: "a", Name: "two"}, "Node": {Namespace: "ignored", Name: "n"}, "Widget": {Namespace: "a", Name: "w"},
			}[kind.Kind]
			for form, as := range forms(kind) {
				obj, list := as()
				if err := c.Get(w.ctx(), key, obj); err != nil {
					w.Errorf("%s %s: %v", form, kind.Kind, err)
					continue
				}
				if obj.GetName() != key.Name || obj.GetUID() == "" || obj.GetObjectKind().GroupVersionKind() != kind {
					w.Errorf("%s %s: got %+v", form, kind.Kind, obj)
				}
				if err := c.List(w.ctx(), list); err != nil {
					w.Errorf("%s %s: %v", form, kind.Kind, err)
				}
				checkItems(w, form, kind, list)
			}
		}
		var widget Widget
		if err := c.Get(w.ctx(), client.ObjectKey{Namespace: "a", Name: "w"}, &widget); err != nil || widget.Spec.Size != 3 {
			w.Errorf("widget: %+v, %v", widget, err)
		}
	})
}

func checkItems(w *world, form string, kind schema.GroupVersionKind, list client.ObjectList) {
	items, err := meta.ExtractList(list)
	if err != nil || len(items) == 0 || list.GetContinue() != "continue-not-supported" {
		w.Errorf("%s %s: listed %d items, continue %q, %v", form, kind.Kind, len(items), list.GetContinue(), err)
	}
	for _, item := range items {
		if got := item.GetObjectKind().GroupVersionKind(); got != kind {
			w.Errorf("%s %s: an item has kind %v", form, kind.Kind, got)
		}
	}
}

func TestReaderErrors(t *testing.T) {
	onBoth(t, tidingstest.ServerOptions{}, func(w *world) {
		w.fill()
		c := w.make(cache.Options{})
		var notStarted *cache.ErrCacheNotStarted
		if err := c.Get(w.ctx(), client.ObjectKey{Namespace: "a", Name: "one"}, &corev1.Pod{}); !errors.As(err, &notStarted) {
			w.Errorf("get before the start: %v", err)
		}
		if err := c.List(w.ctx(), &corev1.PodList{}); !errors.As(err, &notStarted) {
			w.Errorf("list before the start: %v", err)
		}
		w.run(c)
		for form, as := range forms(podKind) {
			obj, list := as()
			for _, key := range []client.ObjectKey{{Namespace: "a", Name: "none"}, {Namespace: "none", Name: "one"}, {Name: "one"}} {
				if err := c.Get(w.ctx(), key, obj); !apierrors.IsNotFound(err) {
					w.Errorf("%s: get %v: %v", form, key, err)
				}
			}
			for problem, opt := range map[string]client.ListOption{
				"continue list option is not supported": client.Continue("token"),
				"non-exact field matches":               client.MatchingFieldsSelector{Selector: fields.OneTermNotEqualSelector("a", "b")},
				"does not exist":                        client.MatchingFields{"a": "b"},
			} {
				if err := c.List(w.ctx(), list, opt); err == nil || !strings.Contains(err.Error(), problem) {
					w.Errorf("%s: %v, want %s", form, err, problem)
				}
			}
		}
		if err := c.Get(w.ctx(), client.ObjectKey{Name: "x"}, asUnstructured(widgets.WithKind("Unknown"))); !meta.IsNoMatchError(err) {
			w.Errorf("of an unknown kind: %v", err)
		}
		w.InjectAlways(tidingstest.Any, tidingstest.Fault{Resource: "services", Delay: time.Hour})
		ended, cancel := context.WithCancel(w.ctx())
		cancel()
		if err := c.List(ended, &corev1.ServiceList{}); !apierrors.IsTimeout(err) {
			w.Errorf("of a kind that is not cached yet, with a context that has ended: %v", err)
		}
	})
}

func TestListOptions(t *testing.T) {
	onBoth(t, tidingstest.ServerOptions{}, func(w *world) {
		w.fill()
		c := w.start(cache.Options{})
		for form, as := range forms(podKind) {
			list := func(opts ...client.ListOption) []string {
				_, list := as()
				return w.names(c, list, opts...)
			}
			want(w, form, list(), []string{"a/one", "a/two", "b/one"})
			want(w, form+" in a namespace", list(client.InNamespace("a")), []string{"a/one", "a/two"})
			want(w, form+" in an empty namespace", list(client.InNamespace("none")), []string{})
			want(w, form+" by labels", list(client.MatchingLabels{"app": "x"}), []string{"a/one", "b/one"})
			want(w, form+" by both", list(client.InNamespace("a"), client.MatchingLabels{"app": "x"}), []string{"a/one"})
			selector := labels.SelectorFromSet(labels.Set{"app": "y"})
			want(w, form+" limited, by labels", list(client.Limit(1), client.MatchingLabelsSelector{Selector: selector}), []string{"a/two"})
			if got := list(client.Limit(2)); len(got) != 2 {
				w.Errorf("%s: with limit 2: %v", form, got)
			}
		}
	})
}

// TestDeepCopy checks that readers get copies, unless they ask for the cache's own objects.
func TestDeepCopy(t *testing.T) {
	// What a list of values was copied from may be collected before it is read again, if it is folded.
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	onBoth(t, tidingstest.ServerOptions{}, func(w *world) {
		w.fill()
		copying, not := w.start(cache.Options{}), w.start(cache.Options{DefaultUnsafeDisableDeepCopy: ptr.To(true)})
		some := w.start(cache.Options{ByObject: map[client.Object]cache.ByObject{&corev1.Pod{}: {UnsafeDisableDeepCopy: ptr.To(true)}}})
		for _, test := range []struct {
			name   string
			c      cache.Cache
			get    []client.GetOption
			list   []client.ListOption
			shared bool
		}{
			{name: "by default", c: copying},
			{"with an option", copying, []client.GetOption{client.UnsafeDisableDeepCopy}, []client.ListOption{client.UnsafeDisableDeepCopy}, true},
			{name: "off", c: not, shared: true},
			{name: "off for pods", c: some, shared: true},
		} {
			var first, second corev1.Pod
			for _, p := range []*corev1.Pod{&first, &second} {
				if err := test.c.Get(w.ctx(), client.ObjectKey{Namespace: "a", Name: "one"}, p, test.get...); err != nil {
					w.Fatal(err)
				}
			}
			var list corev1.PodList
			if err := test.c.List(w.ctx(), &list, append(test.list, client.InNamespace("b"))...); err != nil {
				w.Fatal(err)
			}
			var other corev1.Pod
			if err := test.c.Get(w.ctx(), client.ObjectKey{Namespace: "b", Name: "one"}, &other, test.get...); err != nil {
				w.Fatal(err)
			}
			if got := &first.Spec.Containers[0] == &second.Spec.Containers[0]; got != test.shared {
				w.Errorf("%s: two gets share: %t", test.name, got)
			}
			if got := &list.Items[0].Spec.Containers[0] == &other.Spec.Containers[0]; got != test.shared {
				w.Errorf("%s: a list and a get share: %t", test.name, got)
			}
		}
	})
}

func TestReaderFailsOnMissingInformer(t *testing.T) {
	onBoth(t, tidingstest.ServerOptions{}, func(w *world) {
		w.fill()
		c := w.start(cache.Options{ReaderFailOnMissingInformer: true})
		for form, as := range forms(podKind) {
			obj, list := as()
			key := client.ObjectKey{Namespace: "a", Name: "one"}
			var missing *cache.ErrResourceNotCached
			if err := c.Get(w.ctx(), key, obj); !errors.As(err, &missing) || missing.GVK != podKind {
				w.Errorf("%s: get: %v", form, err)
			}
			if err := c.List(w.ctx(), list); !errors.As(err, &missing) {
				w.Errorf("%s: list: %v", form, err)
			}
			if _, err := c.GetInformer(w.ctx(), obj); err != nil {
				w.Fatal(err)
			}
			if err := c.Get(w.ctx(), key, obj); err != nil {
				w.Errorf("%s: get with an informer: %v", form, err)
			}
		}
	})
}

func TestFieldIndexes(t *testing.T) {
	byPolicy := func(obj client.Object) []string { return []string{string(obj.(*corev1.Pod).Spec.RestartPolicy)} }
	byApp := func(obj client.Object) []string { return []string{obj.GetLabels()["app"], "any"} }
	onBoth(t, tidingstest.ServerOptions{}, func(w *world) {
		w.fill()
		never := pod("b", "never", "app", "y")
		never.Spec.RestartPolicy = corev1.RestartPolicyNever
		w.Create(never)
		c := w.make(cache.Options{})
		index := func(obj client.Object, field string, fn client.IndexerFunc) {
			w.Helper()
			if err := c.IndexField(w.ctx(), obj, field, fn); err != nil {
				w.Error(err)
			}
		}
		index(&corev1.Pod{}, "policy", byPolicy)
		for _, as := range forms(podKind) {
			obj, _ := as()
			index(obj, "app", byApp)
		}
		index(&corev1.Node{}, "fixed", func(client.Object) []string { return []string{"x", "y"} })
		w.run(c)
		index(&Widget{}, "size", func(obj client.Object) []string { return []string{string(rune('0' + obj.(*Widget).Spec.Size))} })

		want(w, "by policy", w.names(c, &corev1.PodList{}, client.MatchingFields{"policy": "Never"}), []string{"b/never"})
		want(w, "by two", w.names(c, &corev1.PodList{}, client.MatchingFields{"policy": "Always", "app": "y"}), []string{"a/two"})
		want(w, "by two that exclude each other", w.names(c, &corev1.PodList{}, client.MatchingFields{"policy": "Never", "app": "x"}), []string{})
		want(w, "nodes", w.names(c, &corev1.NodeList{}, client.MatchingFields{"fixed": "y"}), []string{"/n"})
		want(w, "added late", w.names(c, &WidgetList{}, client.MatchingFields{"size": "3"}), []string{"a/w"})
		for form, as := range forms(podKind) {
			_, list := as()
			want(w, form, w.names(c, list, client.MatchingFields{"app": "x"}), []string{"a/one", "b/one"})
			want(w, form+" in a namespace", w.names(c, list, client.InNamespace("b"), client.MatchingFields{"app": "any"}), []string{"b/never", "b/one"})
		}
		w.Update(pod("a", "one", "app", "y"))
		w.settle()
		want(w, "after an update", w.names(c, &corev1.PodList{}, client.MatchingFields{"app": "x"}), []string{"b/one"})
		if err := c.IndexField(w.ctx(), &corev1.Pod{}, "policy", byPolicy); err == nil || !strings.Contains(err.Error(), "conflict") {
			w.Errorf("an index of the same name: %v", err)
		}
	})
}
