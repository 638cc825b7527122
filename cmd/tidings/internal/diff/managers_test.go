package diff

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	utiljson "k8s.io/apimachinery/pkg/util/json"
)

// managed returns an object with the given spec and managed fields entries.
func managed(t *testing.T, body string, entries ...string) map[string]any {
	t.Helper()
	return parse(t, fmt.Sprintf(`{"metadata":{"name":"web","creationTimestamp":"2026-01-01T00:00:00Z","managedFields":[%s]},%s}`, strings.Join(entries, ","), body))
}

func by(name, operation, subresource, time, fields string) string {
	return fmt.Sprintf(`{"manager":%q,"operation":%q,"subresource":%q,"apiVersion":"v1","time":%q,"fieldsType":"FieldsV1","fieldsV1":%s}`, name, operation, subresource, time, fields)
}

const (
	t0 = "2026-01-01T00:00:00Z"
	t1 = "2026-01-01T00:01:00Z"
	t2 = "2026-01-01T00:02:00Z"
)

func TestAttribution(t *testing.T) {
	edit, kubelet := Manager{Name: "edit", Operation: "Update"}, Manager{Name: "kubelet", Operation: "Update", Subresource: "status"}
	applier := Manager{Name: "applier", Operation: "Apply"}
	create := by("create", "Update", "", t0, `{"f:spec":{"f:replicas":{},"f:image":{}}}`)
	tests := map[string]struct {
		before, after map[string]any
		want          map[string]Manager
	}{
		"new owner of a value": {
			managed(t, `"spec":{"replicas":1,"image":"a"}`, create),
			managed(t, `"spec":{"replicas":2,"image":"a"}`, by("create", "Update", "", t0, `{"f:spec":{"f:image":{}}}`), by("edit", "Update", "", t1, `{"f:spec":{"f:replicas":{}}}`)),
			map[string]Manager{"spec.replicas": edit},
		},
		"owner writes again within a second": {
			managed(t, `"spec":{"replicas":1}`, by("edit", "Update", "", t0, `{"f:spec":{"f:replicas":{}}}`)),
			managed(t, `"spec":{"replicas":2}`, by("edit", "Update", "", t0, `{"f:spec":{"f:replicas":{}}}`)),
			map[string]Manager{"spec.replicas": edit},
		},
		"two managers at once, one through a subresource": {
			managed(t, `"spec":{"image":"a"},"status":{"conditions":[{"type":"Ready","status":"False"}]}`, create),
			managed(t, `"spec":{"image":"b"},"status":{"conditions":[{"type":"Ready","status":"True"}]}`,
				by("edit", "Update", "", t1, `{"f:spec":{"f:image":{}}}`),
				by("kubelet", "Update", "status", t1, `{"f:status":{"f:conditions":{"k:{\"type\":\"Ready\"}":{".":{},"f:status":{}}}}}`)),
			map[string]Manager{"spec.image": edit, "status.conditions[type=Ready].status": kubelet},
		},
		"atomic list above the change": {
			managed(t, `"spec":{"args":["a","b"]}`, create),
			managed(t, `"spec":{"args":["a","c"]}`, by("edit", "Update", "", t1, `{"f:spec":{"f:args":{}}}`)),
			map[string]Manager{"spec.args[#1]": edit},
		},
		"whole subtree added": {
			managed(t, `"spec":{}`),
			managed(t, `"spec":{"template":{"a":1}}`, by("edit", "Update", "", t1, `{"f:spec":{"f:template":{"f:a":{}}}}`)),
			map[string]Manager{"spec.template": edit},
		},
		"a map that is left behind by its entries": {
			managed(t, `"spec":{"replicas":1}`, by("create", "Update", "", t0, `{"f:spec":{".":{},"f:replicas":{}}}`)),
			managed(t, `"spec":{"replicas":2}`, by("create", "Update", "", t0, `{"f:spec":{}}`), by("edit", "Update", "", t0, `{"f:spec":{"f:replicas":{}}}`)),
			map[string]Manager{"spec.replicas": edit},
		},
		"set element": {
			managed(t, `"spec":{"finalizers":["x"]}`),
			managed(t, `"spec":{"finalizers":["x","y"]}`, by("create", "Update", "", t1, `{"f:spec":{"f:finalizers":{"v:\"x\"":{}}}}`), by("edit", "Update", "", t1, `{"f:spec":{"f:finalizers":{".":{},"v:\"y\"":{}}}}`)),
			map[string]Manager{"spec.finalizers[#1]": edit},
		},
		"removal by the only writer": {
			managed(t, `"spec":{"replicas":1,"image":"a"}`, create),
			managed(t, `"spec":{"replicas":2}`, by("edit", "Update", "", t1, `{"f:spec":{"f:replicas":{}}}`)),
			map[string]Manager{"spec.image": edit, "spec.replicas": edit},
		},
		"bare removal is not recorded": {
			managed(t, `"spec":{"replicas":1,"image":"a"}`, create),
			managed(t, `"spec":{"replicas":1}`, by("create", "Update", "", t0, `{"f:spec":{"f:replicas":{}}}`)),
			map[string]Manager{"spec.image": {}},
		},
		"appliers of one value at one time": {
			managed(t, `"spec":{"replicas":1}`),
			managed(t, `"spec":{"replicas":2}`, by("a", "Apply", "", t1, `{"f:spec":{"f:replicas":{}}}`), by("b", "Apply", "", t1, `{"f:spec":{"f:replicas":{}}}`)),
			map[string]Manager{"spec.replicas": {}},
		},
		"an apply removes an element of a set, and the next one moves up": {
			managed(t, `"spec":{"finalizers":["x","y","z"]}`, by("create", "Update", "", t0, `{"f:spec":{"f:finalizers":{".":{},"v:\"y\"":{}}}}`),
				by("applier", "Apply", "", t0, `{"f:spec":{"f:finalizers":{"v:\"x\"":{},"v:\"z\"":{}}}}`)),
			managed(t, `"spec":{"finalizers":["y"]}`, by("create", "Update", "", t0, `{"f:spec":{"f:finalizers":{".":{},"v:\"y\"":{}}}}`),
				by("applier", "Apply", "", t1, `{"f:spec":{}}`)),
			map[string]Manager{"spec.finalizers[#0]": applier, "spec.finalizers[#1]": applier, "spec.finalizers[#2]": applier},
		},
		"a removal that is not recorded moves an element up": {
			managed(t, `"spec":{"finalizers":["x","y","z"]}`, by("create", "Update", "", t0, `{"f:spec":{"f:finalizers":{".":{},"v:\"x\"":{},"v:\"y\"":{},"v:\"z\"":{}}}}`)),
			managed(t, `"spec":{"finalizers":["y"]}`, by("create", "Update", "", t0, `{"f:spec":{"f:finalizers":{".":{},"v:\"y\"":{}}}}`)),
			map[string]Manager{"spec.finalizers[#0]": {}, "spec.finalizers[#1]": {}, "spec.finalizers[#2]": {}},
		},
		"an order that nobody owns": {
			managed(t, `"spec":{"list":[{"name":"a"},{"name":"b"}]}`, by("create", "Update", "", t0, `{"f:spec":{"f:list":{".":{},"k:{\"name\":\"a\"}":{},"k:{\"name\":\"b\"}":{}}}}`)),
			managed(t, `"spec":{"list":[{"name":"b"},{"name":"a"}]}`, by("create", "Update", "", t0, `{"f:spec":{"f:list":{".":{},"k:{\"name\":\"a\"}":{},"k:{\"name\":\"b\"}":{}}}}`)),
			map[string]Manager{"spec.list": {}},
		},
		"an order that changed along with what an applier wrote": {
			managed(t, `"spec":{"n":1,"list":[{"name":"a"},{"name":"b"}]}`, by("create", "Update", "", t0, `{"f:spec":{"f:n":{},"f:list":{".":{},"k:{\"name\":\"a\"}":{}}}}`)),
			managed(t, `"spec":{"n":2,"list":[{"name":"b"},{"name":"a"}]}`, by("create", "Update", "", t0, `{"f:spec":{"f:list":{".":{},"k:{\"name\":\"a\"}":{}}}}`),
				by("applier", "Apply", "", t1, `{"f:spec":{"f:n":{}}}`)),
			map[string]Manager{"spec.list": applier, "spec.n": applier},
		},
		"an applier changes what a web hook or a default adds to": {
			managed(t, `"spec":{"n":1,"derived":{"a":1}}`, by("create", "Update", "", t0, `{"f:spec":{"f:n":{},"f:derived":{}}}`)),
			managed(t, `"spec":{"n":2,"derived":{"a":2}}`, by("create", "Update", "", t0, `{"f:spec":{"f:derived":{}}}`), by("applier", "Apply", "", t1, `{"f:spec":{"f:n":{}}}`)),
			map[string]Manager{"spec.derived.a": applier, "spec.n": applier},
		},
		"an applier takes a field away from the first owner, within a second": {
			managed(t, `"spec":{"n":1,"m":1}`, by("create", "Update", "", t0, `{"f:spec":{"f:n":{},"f:m":{}}}`)),
			managed(t, `"spec":{"n":2,"m":1}`, by("create", "Update", "", t0, `{"f:spec":{"f:m":{}}}`), by("applier", "Apply", "", t0, `{"f:spec":{"f:n":{}}}`)),
			map[string]Manager{"spec.n": applier},
		},
		"an applier that wrote long ago shares what another one sets": {
			managed(t, `"spec":{"n":1}`, by("applier", "Apply", "", t0, `{"f:spec":{"f:n":{}}}`)),
			managed(t, `"spec":{"n":2}`, by("edit", "Update", "", t1, `{"f:spec":{"f:n":{}}}`), by("applier", "Apply", "", t0, `{"f:spec":{"f:n":{}}}`)),
			map[string]Manager{"spec.n": edit},
		},
		"two writers share what changed": {
			managed(t, `"spec":{"n":1}`, by("applier", "Apply", "", t0, `{"f:spec":{"f:n":{}}}`)),
			managed(t, `"spec":{"n":2}`, by("edit", "Update", "", t1, `{"f:spec":{"f:n":{}}}`), by("applier", "Apply", "", t2, `{"f:spec":{"f:n":{}}}`)),
			map[string]Manager{"spec.n": {}},
		},
		"the oldest entries are merged": {
			managed(t, `"spec":{"n":1,"m":1}`, by("old", "Update", "", t0, `{"f:spec":{"f:n":{}}}`)),
			managed(t, `"spec":{"n":1}`, by("ancient-changes", "Update", "", t0, `{"f:spec":{"f:n":{}}}`)),
			map[string]Manager{"spec.m": {}},
		},
		"nothing recorded": {
			managed(t, `"spec":{"replicas":1}`), managed(t, `"spec":{"replicas":2}`),
			map[string]Manager{"spec.replicas": {}},
		},
		"malformed entries": {
			managed(t, `"spec":{"replicas":1}`, `7`, `{"manager":3}`), managed(t, `"spec":{"replicas":2}`, `{"manager":"x","fieldsV1":[]}`, `null`),
			map[string]Manager{"spec.replicas": {Name: "x"}},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got := map[string]Manager{}
			for _, c := range Objects(test.before, test.after, Options{}).Changes {
				got[c.Path.String()] = c.By
			}
			if fmt.Sprint(got) != fmt.Sprint(test.want) {
				t.Errorf("got %v, want %v", got, test.want)
			}
		})
	}
}

func TestCreator(t *testing.T) {
	edit := Manager{Name: "edit", Operation: "Update"}
	first, later := by("edit", "Update", "", t0, `{}`), by("kubelet", "Update", "status", t1, `{}`)
	if got := Creator(managed(t, `"a":1`, first)); got != edit {
		t.Errorf("only manager: %v", got)
	}
	if got := Creator(managed(t, `"a":1`, first, later)); got != edit {
		t.Errorf("only manager of the object itself: %v", got)
	}
	if got := Creator(managed(t, `"a":1`, first, by("other", "Apply", "", t1, `{}`))); got != (Manager{}) {
		t.Errorf("the creator may be the one that wrote again later: %v", got)
	}
	if got := Creator(managed(t, `"a":1`, by("edit", "Update", "", t1, `{}`))); got != (Manager{}) {
		t.Errorf("the only manager wrote later, and the creator's entry is gone: %v", got)
	}
	if got := Creator(managed(t, `"a":1`, first, by("other", "Update", "", t0, `{}`))); got != (Manager{}) {
		t.Errorf("two at creation: %v", got)
	}
	if got := Creator(map[string]any{}); got != (Manager{}) {
		t.Errorf("nothing: %v", got)
	}
}

// TestWriter: the writer of an object is known even if none of its fields changed.
func TestWriter(t *testing.T) {
	was := managed(t, `"a":1`, by("create", "Update", "", t0, `{"f:a":{}}`))
	is := managed(t, `"a":1`, by("create", "Update", "", t0, `{"f:a":{}}`), by("applier", "Apply", "", t1, `{"f:a":{}}`))
	if got := Objects(was, is, Options{}).By; got.Name != "applier" {
		t.Errorf("by %v", got)
	}
	if got := Objects(was, was, Options{}).By; got != (Manager{}) {
		t.Errorf("nothing changed: by %v", got)
	}
}

// FuzzAttribution: whatever managed fields contain, there is an answer.
func FuzzAttribution(f *testing.F) {
	f.Add(`{"f:spec":{"f:list":{"k:{\"name\":\"a\"}":{".":{}}}}}`, `k:{`)
	f.Add(`{"f:spec":{"i:0":{}}}`, `v:`)
	f.Add(`null`, `f:`)
	f.Fuzz(func(t *testing.T, fields, entry string) {
		before := map[string]any{"spec": map[string]any{"list": []any{map[string]any{"name": "a", "v": "1"}}}}
		after := clone(before).(map[string]any)
		after["spec"].(map[string]any)["list"].([]any)[0].(map[string]any)["v"] = "2"
		m := map[string]any{}
		if utiljson.Unmarshal([]byte(fields), &m) != nil || m == nil {
			m = map[string]any{}
		}
		m[entry] = map[string]any{}
		after["metadata"] = map[string]any{"managedFields": []any{map[string]any{"manager": "x", "fieldsV1": m}}}
		changes := Objects(before, after, Options{}).Changes
		if !slices.ContainsFunc(changes, func(c Change) bool { return c.Path.String() == "spec.list[name=a].v" }) {
			t.Fatalf("what changed is missing: %s", show(changes))
		}
		for _, c := range changes {
			if c.By.Name != "" && c.By.Name != "x" {
				t.Fatalf("%s by %q, who is not among the managers", c.Path, c.By.Name)
			}
		}
	})
}

// TestLongListsAreCheap: the work of comparing lists whose elements all changed and moved grows with their length, and
// not with its square. It is counted in allocations: each look at an element by its key makes one.
func TestLongListsAreCheap(t *testing.T) {
	short := compareLong(t, 1000)
	if long := compareLong(t, 8000); long > 10*short {
		t.Errorf("%.0f allocations for 1000 elements, %.0f for 8000", short, long)
	}
}

// compareLong compares two lists of n elements, and returns the number of allocations that it took.
func compareLong(t *testing.T, n int) float64 {
	t.Helper()
	before, after, owned := make([]any, n), make([]any, n), map[string]any{}
	for i := range n {
		name := fmt.Sprint("element-", i)
		before[i] = map[string]any{"name": name, "v": int64(1)}
		after[n-1-i] = map[string]any{"name": name, "v": int64(2)}
		owned[fmt.Sprintf("k:{\"name\":%q}", name)] = map[string]any{"f:v": map[string]any{}}
	}
	object := func(list []any, manager string) map[string]any {
		fields := map[string]any{"f:list": owned}
		entry := map[string]any{"manager": manager, "fieldsV1": fields}
		return map[string]any{"list": list, "metadata": map[string]any{"managedFields": []any{entry}}}
	}
	var changes []Change
	allocations := testing.AllocsPerRun(1, func() {
		changes = Objects(object(before, "a"), object(after, "b"), Options{}).Changes
	})
	for _, c := range changes {
		if c.By.Name != "b" {
			t.Fatalf("%s by %q", c.Path, c.By.Name)
		}
	}
	if len(changes) != n+1 {
		t.Errorf("%d changes", len(changes))
	}
	return allocations
}

func BenchmarkObjects(b *testing.B) {
	before := parse(b, podText)
	after := clone(before).(map[string]any)
	after["status"].(map[string]any)["phase"] = "Running"
	for b.Loop() {
		if len(Objects(before, after, Options{}).Changes) != 1 {
			b.Fatal("not one change")
		}
	}
}

// podText is a pod typical of small clusters.
const podText = `{"metadata":{"name":"web","labels":{"app":"web","tier":"front"},"ownerReferences":[{"uid":"1","kind":"ReplicaSet","name":"web"}],
"managedFields":[{"manager":"kube-controller-manager","operation":"Update","time":"2026-01-01T00:00:00Z","fieldsV1":{"f:spec":{"f:containers":{"k:{\"name\":\"web\"}":{".":{},"f:image":{},"f:env":{"k:{\"name\":\"A\"}":{},"k:{\"name\":\"B\"}":{}}}}}}},
{"manager":"kubelet","operation":"Update","subresource":"status","time":"2026-01-01T00:00:01Z","fieldsV1":{"f:status":{"f:phase":{},"f:conditions":{"k:{\"type\":\"Ready\"}":{".":{},"f:status":{}}}}}}]},
"spec":{"containers":[{"name":"web","image":"web:1","env":[{"name":"A","value":"1"},{"name":"B","value":"2"}],"volumeMounts":[{"mountPath":"/data","name":"data"}],"ports":[{"containerPort":80,"protocol":"TCP"}]},{"name":"log","image":"log:1"}],
"tolerations":[{"key":"a","effect":"NoExecute"},{"key":"b","effect":"NoExecute"}],"volumes":[{"name":"data"},{"name":"token"}]},
"status":{"phase":"Pending","conditions":[{"type":"Ready","status":"False"},{"type":"Initialized","status":"True"}],"podIPs":[{"ip":"10.0.0.1"}]}}`
