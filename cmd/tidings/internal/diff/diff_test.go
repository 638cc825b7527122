package diff

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	utiljson "k8s.io/apimachinery/pkg/util/json"
)

// TestApplyingGivesNew checks that differences are complete: for any two trees, applying the changes to the old one
// yields the new one, and comparing equal trees yields no changes.
func TestApplyingGivesNew(t *testing.T) {
	for seed := range uint64(6000) {
		g := generator{rand.New(rand.NewPCG(seed, 7))}
		before := g.object(4)
		after := g.object(4)
		if seed%4 > 0 { // usually a modification of the old state
			after = g.mutate(clone(before)).(map[string]any)
		}
		changes := Trees(before, after)
		got, err := apply(before, changes)
		if err != nil || !equal(got, after) {
			t.Fatalf("seed %d: %v\nold %s\nnew %s\ngot %s\nchanges %s", seed, err, dump(before), dump(after), dump(got), show(changes))
		}
		if (len(changes) == 0) != equal(before, after) {
			t.Fatalf("seed %d: %d changes between\n%s\n%s", seed, len(changes), dump(before), dump(after))
		}
		if again := Trees(before, after); show(again) != show(changes) {
			t.Fatalf("seed %d: not deterministic:\n%s\n%s", seed, show(changes), show(again))
		}
	}
}

// TestPathsAreUnique: no two changes of a comparison may have the same formatted path, except for the order of a
// list.
func TestPathsAreUnique(t *testing.T) {
	for seed := range uint64(5000) {
		g := generator{rand.New(rand.NewPCG(seed, 11))}
		before := g.object(4)
		seen := map[string]bool{}
		for _, c := range Trees(before, g.mutate(clone(before)).(map[string]any)) {
			id := c.Path.String()
			if c.Op == Reordered || c.Op == Added && c.Path[len(c.Path)-1].InList {
				id += string(c.Op)
			}
			if seen[id] {
				t.Fatalf("seed %d: path %s twice", seed, id)
			}
			seen[id] = true
		}
	}
}

func TestObjects(t *testing.T) {
	tests := map[string]struct{ before, after, want string }{
		"image of a container": {
			`{"spec":{"containers":[{"name":"web","image":"web:1"},{"name":"log","image":"log:1"}]}}`,
			`{"spec":{"containers":[{"name":"web","image":"web:2"},{"name":"log","image":"log:1"}]}}`,
			`replace spec.containers[name=web].image "web:1" -> "web:2"`,
		},
		"condition inserted in front": {
			`{"status":{"conditions":[{"type":"Ready","status":"False"}]}}`,
			`{"status":{"conditions":[{"type":"Initialized","status":"True"},{"type":"Ready","status":"True"}]}}`,
			`replace status.conditions[type=Ready].status "False" -> "True"
add status.conditions[type=Initialized] null -> {"status":"True","type":"Initialized"}`,
		},
		"ports by number and protocol": {
			`{"ports":[{"port":53,"protocol":"TCP","name":"a"},{"port":53,"protocol":"UDP","name":"b"}]}`,
			`{"ports":[{"port":53,"protocol":"TCP","name":"a"},{"port":53,"protocol":"UDP","name":"c"}]}`,
			`replace ports[port=53,protocol=UDP].name "b" -> "c"`,
		},
		"a number and its text as keys": {
			`{"l":[{"name":"1"},{"name":"true"}]}`,
			`{"l":[{"name":"1","v":1},{"name":1},{"name":true},{"name":"true","v":2}]}`,
			`add l[name="1"].v null -> 1
add l[name="true"].v null -> 2
add l[name=1] null -> {"name":1}
add l[name=true] null -> {"name":true}`,
		},
		"reordered": {
			`{"env":[{"name":"A"},{"name":"B"}]}`,
			`{"env":[{"name":"B"},{"name":"A"}]}`,
			`reorder env ["A","B"] -> ["B","A"]`,
		},
		"no key fits": {
			`{"l":[{"name":"a","v":1},{"name":"a","v":2}]}`,
			`{"l":[{"name":"a","v":1},{"name":"a","v":3}]}`,
			`replace l[#1].v 2 -> 3`,
		},
		"finalizer removed from the front": {
			`{"metadata":{"finalizers":["a.io/x","b.io/y"]}}`,
			`{"metadata":{"finalizers":["b.io/y"]}}`,
			`remove metadata.finalizers[#0] "a.io/x" -> null`,
		},
		"odd names": {
			`{"metadata":{"labels":{"app.kubernetes.io/name":"a","":"x"}},"data":{"a=b":"1","#1":"2","é":"3","0":"4"}}`,
			`{"metadata":{"labels":{"app.kubernetes.io/name":"b","":"y"}},"data":{"a=b":"2","#1":"3","é":"4","0":"5"}}`,
			`replace data["#1"] "2" -> "3"
replace data.0 "4" -> "5"
replace data["a=b"] "1" -> "2"
replace data[é] "3" -> "4"
replace metadata.labels[""] "x" -> "y"
replace metadata.labels[app.kubernetes.io/name] "a" -> "b"`,
		},
		"type changed": {`{"a":{"b":1}}`, `{"a":[1]}`, `replace a {"b":1} -> [1]`},
		"null is not absent": {
			`{"a":null,"b":null}`, `{"b":1,"c":null}`,
			"remove a null -> null\nreplace b null -> 1\nadd c null -> null",
		},
		"bookkeeping hidden": {
			`{"metadata":{"resourceVersion":"1","generation":1,"managedFields":[{"manager":"a"}]}}`,
			`{"metadata":{"resourceVersion":"2","generation":2,"managedFields":[]}}`,
			``,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			result := Objects(parse(t, test.before), parse(t, test.after), Options{})
			if got := show(result.Changes); got != test.want {
				t.Errorf("got:\n%s\nwant:\n%s", got, test.want)
			}
		})
	}
}

func TestHidden(t *testing.T) {
	before := parse(t, `{"metadata":{"resourceVersion":"1","generation":1,"managedFields":[{"manager":"a"}]}}`)
	after := parse(t, `{"metadata":{"resourceVersion":"2","generation":1,"managedFields":[]}}`)
	if got := Objects(before, after, Options{}).Hidden; !slices.Equal(got, []string{"metadata.managedFields"}) {
		t.Errorf("hidden %v", got)
	}
	shown := Objects(before, after, Options{ManagedFields: true})
	if got := show(shown.Changes); got != `remove metadata.managedFields[#0] {"manager":"a"} -> null` {
		t.Errorf("shown %s", got)
	}
}

func parse(t testing.TB, text string) map[string]any {
	t.Helper()
	var m map[string]any
	if err := utiljson.Unmarshal([]byte(text), &m); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return m
}

func show(changes []Change) string {
	var lines []byte
	for i, c := range changes {
		if i > 0 {
			lines = append(lines, '\n')
		}
		lines = fmt.Appendf(lines, "%s %s %s -> %s", c.Op, c.Path, dump(c.Old), dump(c.New))
	}
	return string(lines)
}

func dump(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// generator makes random trees shaped like API objects: keyed lists, plain lists, unusual names and types.
type generator struct{ *rand.Rand }

func (g generator) object(depth int) map[string]any {
	m := map[string]any{}
	for range g.IntN(5) {
		m[g.name()] = g.value(depth - 1)
	}
	return m
}

func (g generator) name() string {
	return []string{"name", "spec", "metadata", "type", "key", "a.b/c", "", "port", "protocol", "x=y", "#0"}[g.IntN(11)]
}

func (g generator) value(depth int) any {
	if depth <= 0 {
		return g.scalar()
	}
	switch g.IntN(6) {
	case 0, 1:
		return g.object(depth)
	case 2:
		return g.keyedList(depth)
	case 3:
		list := []any{}
		for range g.IntN(5) {
			list = append(list, g.value(depth-1))
		}
		return list
	}
	return g.scalar()
}

func (g generator) keyedList(depth int) []any {
	list := []any{}
	for _, n := range g.Perm(6)[:g.IntN(6)] {
		element := g.object(depth - 1)
		element["name"] = fmt.Sprint("n", n)
		if g.IntN(40) == 0 {
			delete(element, "name")
		}
		list = append(list, element)
	}
	return list
}

func (g generator) scalar() any {
	return []any{"a", "b", "1", "true", int64(1), int64(2), 1.5, true, false, nil}[g.IntN(10)]
}

// mutate changes a few things somewhere in the tree, which it may modify.
func (g generator) mutate(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) { // sorted, so that a seed always yields the same mutation
			switch g.IntN(8) {
			case 0:
				delete(v, name)
			case 1, 2, 3:
				v[name] = g.mutate(v[name])
			}
		}
		if g.IntN(4) == 0 {
			v[g.name()] = g.value(2)
		}
		return v
	case []any:
		return g.mutateList(v)
	}
	return g.scalar()
}

func (g generator) mutateList(list []any) []any {
	for i := range list {
		if g.IntN(3) == 0 {
			list[i] = g.mutate(list[i])
		}
	}
	if len(list) > 0 && g.IntN(3) == 0 {
		at := g.IntN(len(list))
		list = slices.Delete(list, at, at+1)
	}
	if g.IntN(3) == 0 {
		list = slices.Insert(list, g.IntN(len(list)+1), any(map[string]any{"name": fmt.Sprint("n", g.IntN(9))}))
	}
	if g.IntN(4) == 0 {
		g.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	}
	return list
}
