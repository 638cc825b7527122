package store

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tidings/tidings/internal/testseed"
	"github.com/tidings/tidings/internal/tree"
	"github.com/tidings/tidings/object"
)

type items = object.Items[*thing]

// at returns a thing of a uid and version, with an app label.
func at(name, uid, version, app string) *thing {
	namespace, name, found := strings.Cut(name, "/")
	if !found {
		namespace, name = "", namespace
	}
	o := newThing(namespace, name, map[string]string{"app": app})
	o.UID, o.ResourceVersion = types.UID(uid), version
	return o
}

// text formats deltas for comparison: Type:key/uid/version/app, and other fields that matter.
func text(deltas []object.Delta[*thing]) string {
	var words []string
	for _, d := range deltas {
		s := fmt.Sprintf("%s:%s/%s/%s/%s", d.Type, d.Key, d.Object.UID, d.Object.ResourceVersion, d.Object.Labels["app"])
		if d.Old != nil {
			s += fmt.Sprintf("<%s/%s", d.Old.ResourceVersion, d.Old.Labels["app"])
		}
		if d.FinalStateUnknown {
			s += "+missed"
		}
		words = append(words, s)
	}
	return strings.Join(words, " ")
}

// holding returns a writer that has an index and these objects, at the version.
func holding(version string, all ...*thing) *Writer[*thing] {
	w := NewWriter[*thing](Options{})
	w.AddIndex("app", byLabel("app"))
	txn := w.Begin()
	for _, o := range all {
		txn.Set(object.KeyOf(o), o)
	}
	commit(txn, version)
	return w
}

func TestReplaceIsTheDifference(t *testing.T) {
	same, copied := at("n/same", "6", "15", "x"), at("n/copied", "11", "15", "x")
	known := []*thing{
		at("n/changed", "1", "10", "x"), at("n/gone", "2", "11", "x"), at("n/newer", "3", "90", "x"), at("n/older", "4", "13", "x"),
		at("n/other", "5", "14", "x"), same, at("n/young", "7", "99", "x"), copied, at("n/defaulted", "12", "16", "x"), at("n/nameless", "", "17", "x"),
	}
	list := func() items {
		return items{
			same, at("n/added", "8", "20", "x"), at("n/changed", "1", "21", "x"), at("n/newer", "3", "12", "x"),
			at("n/older", "4", "20", "x"), at("n/older", "4", "22", "x"), at("n/older", "4", "21", "x"), at("n/other", "9", "23", "x"), at("n/zz", "10", "24", "x"),
			at("n/copied", "11", "15", "x"), at("n/defaulted", "12", "16", "new default"), at("n/nameless", "13", "25", "x"),
		}
	}
	for _, c := range []struct {
		rewritten bool
		want      []string
	}{
		{false, []string{
			"Added:n/added/8/20/x", "Replaced:n/changed/1/21/x<10/x", "Replaced:n/defaulted/12/16/new default<16/x", "Deleted:n/gone/2/11/x<11/x+missed",
			"Replaced:n/nameless/13/25/x<17/x", "Replaced:n/older/4/22/x<13/x", "Deleted:n/other/5/14/x<14/x+missed", "Added:n/other/9/23/x", "Added:n/zz/10/24/x",
		}},
		{true, []string{
			"Added:n/added/8/20/x", "Replaced:n/changed/1/21/x<10/x", "Replaced:n/defaulted/12/16/new default<16/x", "Deleted:n/gone/2/11/x<11/x+missed",
			"Replaced:n/nameless/13/25/x<17/x", "Replaced:n/newer/3/12/x<90/x", "Replaced:n/older/4/22/x<13/x", "Deleted:n/other/5/14/x<14/x+missed",
			"Added:n/other/9/23/x", "Deleted:n/young/7/99/x<99/x+missed", "Added:n/zz/10/24/x",
		}},
	} {
		w := holding("99", known...)
		txn := w.Begin()
		got := text(txn.Replace("", list(), "30", c.rewritten))
		if want := strings.Join(c.want, " "); got != want {
			t.Errorf("rewritten %v:\ngot  %s\nwant %s", c.rewritten, got, want)
		}
		s := txn.Commit()
		check(t, s)
		version := map[bool]string{false: "99", true: "30"}[c.rewritten]
		if kept, _ := s.Get(object.KeyOf(copied)); kept != copied || s.ResourceVersion() != version {
			t.Errorf("rewritten %v: the copy of an object takes its place, or the store is at %s", c.rewritten, s.ResourceVersion())
		}
	}
}

func TestReplaceOneNamespace(t *testing.T) {
	w := holding("", at("a/x", "1", "1", ""), at("b/x", "2", "2", ""), at("c/x", "3", "3", ""))
	for _, step := range []struct {
		namespace string
		list      items
		want      string
	}{
		{"b", items{at("b/y", "4", "4", ""), at("c/y", "5", "5", ""), at("a/y", "6", "6", "")}, "Deleted:b/x/2/2/<2/+missed Added:b/y/4/4/"},
		{"bb", items{at("bb/z", "7", "7", "")}, "Added:bb/z/7/7/"},
		{"b", nil, "Deleted:b/y/4/4/<4/+missed"},
		{"d", nil, ""},
		{"", items{at("a/x", "1", "1", "")}, "Deleted:bb/z/7/7/<7/+missed Deleted:c/x/3/3/<3/+missed"},
	} {
		txn := w.Begin()
		if got := text(txn.Replace(step.namespace, step.list, "10", false)); got != step.want {
			t.Errorf("%s:\ngot  %s\nwant %s", step.namespace, got, step.want)
		}
		check(t, txn.Commit())
		checkFree(t, w)
	}
}

// TestReplaceEmptyStore takes the fast path, whose result must be the same.
func TestReplaceEmptyStore(t *testing.T) {
	all := things(20 * tree.MaxFill)
	unsorted := slices.Clone(all)
	rand.Shuffle(len(unsorted), func(i, j int) { unsorted[i], unsorted[j] = unsorted[j], unsorted[i] })
	for name, list := range map[string]object.Collection[*thing]{
		"unsorted": items(unsorted), "sorted": items(all), "twice": append(slices.Clone(items(all)), all...), "a snapshot": holding("", all...).Store().Snapshot(),
	} {
		for _, namespace := range []string{"", "ns"} {
			own := list
			if i, ok := list.(items); ok {
				own = slices.Clone(i) // Replace writes to it
			}
			w := holding("")
			txn := w.Begin()
			deltas := txn.Replace(namespace, own, "7", false)
			s := txn.Commit()
			check(t, s)
			added := func(d object.Delta[*thing], o *thing) bool {
				return d == object.Delta[*thing]{Key: object.KeyOf(o), Object: o, Type: object.Added}
			}
			if !slices.EqualFunc(deltas, all, added) || !slices.Equal(objects(s.In(namespace).All()), all) || s.ResourceVersionIn(namespace) != "7" {
				t.Errorf("%s in %q: %d deltas, %d objects, version %s", name, namespace, len(deltas), s.Len(), s.ResourceVersionIn(namespace))
			}
			if got := leaves(s.keys); got != 20 {
				t.Errorf("%s: %d leaves, want 20 full ones", name, got)
			}
		}
	}
}

// private is a type with a field that only reflect.DeepEqual can compare.
type private struct {
	thing
	field map[string]int
}

func (p *private) DeepCopyObject() runtime.Object { return p }

func TestReplaceComparesContents(t *testing.T) {
	changed := func(change func(*private)) *private {
		p := &private{thing: *at("a", "1", "1", "x"), field: map[string]int{"a": 1}}
		p.CreationTimestamp = metav1.Unix(100, 0)
		change(p)
		return p
	}
	for name, c := range map[string]struct {
		change func(*private)
		want   int
	}{
		"nothing":          {func(*private) {}, 0},
		"a label":          {func(p *private) { p.Labels["app"] = "y" }, 1},
		"a private field":  {func(p *private) { p.field["b"] = 2 }, 1},
		"another location": {func(p *private) { p.CreationTimestamp.Time = p.CreationTimestamp.UTC(); p.field = nil }, 1},
	} {
		w := NewWriter[*private](Options{})
		txn := w.Begin()
		txn.Replace("", object.Items[*private]{changed(func(*private) {})}, "1", false)
		deltas := txn.Replace("", object.Items[*private]{changed(c.change)}, "2", false)
		if len(deltas) != c.want {
			t.Errorf("%s: %d deltas, want %d", name, len(deltas), c.want)
		}
		txn.Commit()
	}
	// Values that differ in Go may be the same for Kubernetes.
	w := holding("1", at("a", "1", "1", "x"))
	other := at("a", "1", "1", "x")
	other.Annotations, other.Finalizers = map[string]string{}, []string{}
	txn := w.Begin()
	if deltas := txn.Replace("", items{other}, "2", false); len(deltas) > 0 {
		t.Errorf("got %s", text(deltas))
	}
	txn.Commit()
}

// TestReplaceWithoutVersions is about sources without versions: the contents decide.
func TestReplaceWithoutVersions(t *testing.T) {
	w := holding("", at("a", "1", "", "x"), at("b", "2", "", "x"))
	txn := w.Begin()
	if got, want := text(txn.Replace("", items{at("a", "1", "", "x"), at("b", "2", "", "y")}, "", false)), "Replaced:b/2//y</x"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	check(t, txn.Commit())
}

func TestUnchangedReplaceAllocatesLittle(t *testing.T) {
	w, _ := filled(1000)
	list := items(objects(w.Store().Snapshot().All()))
	copies := slices.Clone(list)
	for i := range copies {
		copies[i] = copies[i].DeepCopy()
	}
	for name, c := range map[string]struct {
		list items
		most float64
	}{"the same objects": {list, 16}, "copies": {copies, 5000}} { // reflect.DeepEqual allocates
		n := 0
		txn := w.Begin()
		allocs := testing.AllocsPerRun(10, func() { n += len(txn.Replace("", c.list, "", false)) })
		txn.Abort()
		if n != 0 || allocs > c.most {
			t.Errorf("%s: %d deltas, %v allocations", name, n, allocs)
		}
	}
}

func TestDrop(t *testing.T) {
	a, b, c := at("a/x", "1", "1", ""), at("b/x", "2", "2", ""), at("c/x", "3", "3", "")
	deleted := func(all ...*thing) string {
		var deltas []object.Delta[*thing]
		for _, o := range all {
			deltas = append(deltas, object.Delta[*thing]{Key: object.KeyOf(o), Object: o, Old: o, Type: object.Deleted, FinalStateUnknown: true})
		}
		return text(deltas)
	}
	for _, test := range []struct {
		name          string
		tracked       []string
		drop          string
		want, version string
	}{
		{"one of two", []string{"a", "b"}, "a", deleted(a), "11"},
		{"the last", []string{"a"}, "a", deleted(a), ""},
		{"not tracked", []string{"b"}, "a", deleted(a), "10"},
		{"within all", []string{"", "a"}, "a", "", "10"},
		{"all but one", []string{"", "b"}, "", deleted(a, c), "11"},
		{"all", []string{""}, "", deleted(a, b, c), ""},
		{"all, without a version", nil, "", deleted(a, b, c), ""},
	} {
		w := holding("", a, b, c)
		txn := w.Begin()
		for i, namespace := range test.tracked {
			txn.Advance(namespace, strconv.Itoa(10+i))
		}
		got := text(txn.Drop(test.drop))
		s := txn.Commit()
		check(t, s)
		checkFree(t, w)
		if got != test.want || s.ResourceVersion() != test.version {
			t.Errorf("%s: at version %s\ngot  %s\nwant %s", test.name, s.ResourceVersion(), got, test.want)
		}
	}
}

// relistModel is a trivial implementation of Replace.
func relistModel(m model, namespace string, list []*thing, version string, rewritten bool) (want []string) {
	newest := model{}
	for _, o := range list {
		k := object.KeyOf(o)
		if have := newest[k]; (namespace == "" || namespace == k.Namespace) && (have == nil || number(o.ResourceVersion) >= number(have.ResourceVersion)) {
			newest[k] = o
		}
	}
	keys := maps.Clone(newest)
	maps.Copy(keys, m)
	for _, k := range slices.SortedFunc(maps.Keys(keys), object.Key.Compare) {
		if namespace != "" && k.Namespace != namespace {
			continue
		}
		old, o := m[k], newest[k]
		deleted := object.Delta[*thing]{Key: k, Object: old, Old: old, Type: object.Deleted, FinalStateUnknown: true}
		added := object.Delta[*thing]{Key: k, Object: o, Type: object.Added}
		var deltas []object.Delta[*thing]
		switch {
		case old == nil:
			deltas = append(deltas, added)
		case o == nil && (rewritten || number(version) >= number(old.ResourceVersion)):
			deltas = append(deltas, deleted)
			delete(m, k)
			want = append(want, text(deltas))
			continue
		case o == nil, !rewritten && number(o.ResourceVersion) < number(old.ResourceVersion):
			continue
		case o.UID != old.UID:
			deltas = append(deltas, deleted, added)
		case o.ResourceVersion == old.ResourceVersion && o.Labels["app"] == old.Labels["app"]:
			continue
		default:
			deltas = append(deltas, object.Delta[*thing]{Key: k, Object: o, Old: old, Type: object.Replaced})
		}
		m[k] = o
		want = append(want, text(deltas))
	}
	return want
}

func number(version string) int {
	n, _ := strconv.Atoi(version)
	return n
}

// TestRandomReplace relists again and again: some namespace or all, at versions that go back and forth.
func TestRandomReplace(t *testing.T) {
	testseed.Each(t, 20, func(t *testing.T, seed uint64) {
		r := rand.New(rand.NewPCG(seed, 0))
		w, m := holding(""), model{}
		for range 60 {
			namespace := []string{"", "a", "b", "c"}[r.IntN(4)]
			list := make(items, r.IntN(40))
			for i := range list {
				name := fmt.Sprintf("%c/n%d", 'a'+r.IntN(4), r.IntN(12))
				list[i] = at(name, strconv.Itoa(r.IntN(3)/2), strconv.Itoa(r.IntN(20)), strconv.Itoa(r.IntN(3)/2))
				if held := m[object.KeyOf(list[i])]; held != nil && r.IntN(3) > 0 {
					list[i] = []*thing{held, held.DeepCopy()}[r.IntN(2)]
				}
			}
			version, rewritten := strconv.Itoa(r.IntN(25)), r.IntN(4) == 0
			before := maps.Clone(m)
			txn := w.Begin()
			want := strings.Join(relistModel(m, namespace, slices.Clone(list), version, rewritten), " ")
			if got := text(txn.Replace(namespace, list, version, rewritten)); got != want {
				t.Fatalf("%q at %s, rewritten %v, of %v:\ngot  %s\nwant %s", namespace, version, rewritten, before.sorted(), got, want)
			}
			s := txn.Commit()
			check(t, s)
			checkFree(t, w)
			if !slices.Equal(objects(s.All()), m.sorted()) {
				t.Fatal("the store differs from the model")
			}
		}
	})
}
