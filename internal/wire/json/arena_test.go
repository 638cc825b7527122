package json

import (
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
	"unsafe"
	"weak"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/tidings/tidings/internal/testseed"
	"github.com/tidings/tidings/internal/wire"
)

// TestOwnValues decodes objects with strings and lists that no other object has, many of them
// equally long, and some repeated. The result equals upstream's, and values that repeat within an
// object are stored once, except with NoSharing.
func TestOwnValues(t *testing.T) {
	random := testseed.Rand(t)
	for _, noSharing := range []bool{false, true} {
		d := newDecoder(t, wire.Options{NoSharing: noSharing})
		n := 0
		unique := func() string {
			n++
			return fmt.Sprintf(`"%s%08d"`, []string{"", "é", `\n`, "x"}[random.IntN(4)], n)
		}
		for range 6 * int(scalars.Window) {
			first, last := unique(), unique()
			list := fmt.Sprintf(`[%s,[%s,[]],{"a":%s,"b":[%s]},%s]`, unique(), unique(), last, unique(), first)
			text := fmt.Sprintf(`{"kind":"K","first":%s,"again":%s,"list":%s,"between":%s,"last":%s,"spec":{"last":%s,"n":%d}}`,
				first, first, list, unique(), last, last, random.IntN(1<<40))
			compare(t, d, []byte(text))
		}
		object := compare(t, d, []byte(`{"kind":"K","first":"said first","again":"said first","list":[],"between":"said between","last":"said last","spec":{"last":"said last","n":0}}`)).Object
		at := func(s any) *byte { return unsafe.StringData(s.(string)) }
		if same := at(object["first"]) == at(object["again"]); same == noSharing {
			t.Errorf("NoSharing is %t; that the first string is stored once is %t", noSharing, same)
		}
		if same := at(object["last"]) == at(object["spec"].(map[string]any)["last"]); same == noSharing {
			t.Errorf("NoSharing is %t; that the last string is stored once is %t", noSharing, same)
		}
		if a := &d.build.arena; len(a.text)+len(a.strings)+len(a.elements)+len(a.lists)+len(a.pending) > 0 {
			t.Errorf("left behind: %+v", a)
		}
	}
}

// TestKeepsNothing: neither decoder keeps the bytes that it decoded.
func TestKeepsNothing(t *testing.T) {
	untyped := newDecoder(t, wire.Options{})
	trimmed := newDecoder(t, wire.Options{Trim: []string{"spec.a"}})
	typed, err := NewTyped[*unstructured.Unstructured](wire.Options{Trim: []string{"spec.a"}})
	if err != nil {
		t.Fatal(err)
	}
	for name, decode := range map[string]func([]byte) error{
		"unstructured": func(data []byte) error { _, err := untyped.Decode(data, nil); return err },
		"trimmed":      func(data []byte) error { _, err := trimmed.Decode(data, nil); return err },
		"typed":        func(data []byte) error { _, err := typed.Decode(data, nil); return err },
	} {
		var data weak.Pointer[byte]
		func() {
			text := fmt.Appendf(nil, `{"kind":"K","spec":{"a":%q}}`, strings.Repeat("x", 100_000))
			data = weak.Make(&text[0])
			if err := decode(text); err != nil {
				t.Fatal(err)
			}
		}()
		runtime.GC()
		if data.Value() != nil {
			t.Errorf("%s: the bytes are kept", name)
		}
	}
	runtime.KeepAlive([]any{untyped, trimmed, typed})
}

// TestKeepsNoObject: a decoder keeps neither objects nor documents that it failed to decode.
func TestKeepsNoObject(t *testing.T) {
	d := newDecoder(t, wire.Options{NoSharing: true})
	text := func(i int, more string) []byte {
		return fmt.Appendf(nil, `{"kind":"K","a":"%s %d","b":["%s %d",{"c":"%s %d"}]%s}`,
			strings.Repeat("x", 100), i, strings.Repeat("y", 100), i, strings.Repeat("z", 100), i, more)
	}
	for i := range 3 * int(scalars.Window) { // so that strings are not stored in the table
		compare(t, d, text(i, ""))
	}
	var kept []weak.Pointer[byte]
	func() {
		object := compare(t, d, text(-1, "")).Object
		list := object["b"].([]any)
		for _, s := range []any{object["a"], list[0], list[1].(map[string]any)["c"]} {
			kept = append(kept, weak.Make(unsafe.StringData(s.(string))))
		}
	}()
	runtime.GC()
	for i := range kept {
		if kept[i].Value() != nil {
			t.Errorf("string %d of an object is kept", i)
		}
	}
	broken := text(-2, `,"n":1e999`)
	data := weak.Make(&broken[0])
	if _, err := d.Decode(broken, nil); err == nil {
		t.Fatal("a number that is too large is taken")
	}
	broken = nil
	runtime.GC()
	if a := &d.build.arena; data.Value() != nil || len(a.text)+len(a.pending)+len(a.elements) > 0 {
		t.Error("something is kept of an object that was refused")
	}
	runtime.KeepAlive(d)
}

// TestPartsInNewParts: new parts may contain parts found in the table. Nobody has written to those,
// and they do not count for the next part.
func TestPartsInNewParts(t *testing.T) {
	d := newDecoder(t, wire.Options{})
	for i := range 30 {
		d.Recheck()
		compare(t, d, fmt.Appendf(nil, `{"kind":"K","spec":{"n":[%d,{}],"part":{"a":{"b":"c"},"d":[1,{"e":[]}]},"z":["a"]}}`, i/3))
	}
	if n := d.Stats().Corrupted; n != 0 {
		t.Errorf("%d stray writes are reported that nobody made", n)
	}
}

// TestSpoiltPartsAreNoHits: a shared part that was written to is not a hit.
func TestSpoiltPartsAreNoHits(t *testing.T) {
	d := newDecoder(t, wire.Options{})
	text := []byte(`{"kind":"K","spec":{"list":[1,2]}}`)
	for range 2 {
		compare(t, d, text)
	}
	compare(t, d, text).Object["spec"].(map[string]any)["list"].([]any)[0] = "spoilt"
	d.Recheck()
	before := d.Stats()
	compare(t, d, text)
	after := d.Stats()
	if lookups, hits := after.Lookups-before.Lookups, after.Hits-before.Hits; lookups != 3 || hits != 1 || after.Corrupted != 2 {
		t.Errorf("%d lookups, %d hits, %d stray writes, want 3, 1 (of the kind) and 2", lookups, hits, after.Corrupted)
	}
}

// TestEveryScalarCounts replaces each kind of scalar by each other in a shared list. Every write is
// noticed, and there are no false alarms, even with empty maps and lists.
func TestEveryScalarCounts(t *testing.T) {
	values := []any{true, false, nil, int64(0), int64(1), int64(2), 0.0, 1.0, "", "1", int64(math.Float64bits(1.5)), 1.5, struct{}{}}
	const text = `{"kind":"K","spec":{"list":[7,true,{"a":{},"b":[]},[]],"map":{"x":{},"y":[{}],"z":false}}}`
	for i, before := range values {
		for j, after := range values {
			d := newDecoder(t, wire.Options{})
			for range 3 {
				d.Recheck()
				if _, err := d.Decode([]byte(text), nil); err != nil {
					t.Fatal(err)
				}
			}
			if d.Stats().Corrupted != 0 {
				t.Fatal("a stray write is reported that nobody made")
			}
			b := &d.build
			if sum := func(v any) uint64 { return b.checksumOf([]any{v}, 100) }; (sum(before) == sum(after)) != (i == j) {
				t.Errorf("%T %v and %T %v: the checksums are the same: %t", before, before, after, after, i != j)
			}
		}
	}
}

// TestRechecksByItself: without calls of Recheck, a decoder still finds stray writes, later.
func TestRechecksByItself(t *testing.T) {
	d := newDecoder(t, wire.Options{})
	decode := func() map[string]any {
		o, err := d.Decode([]byte(`{"kind":"K","spec":{"list":[1,2,3]}}`), nil)
		if err != nil {
			t.Fatal(err)
		}
		return o.Object["spec"].(map[string]any)
	}
	for range 3 {
		decode()
	}
	decode()["list"] = "spoilt"
	for range wire.RecheckEvery + 1 {
		decode()
	}
	if got := decode(); fmt.Sprint(got) != "map[list:[1 2 3]]" || d.Stats().Corrupted == 0 {
		t.Errorf("the object has %v; %d stray writes were found", got, d.Stats().Corrupted)
	}
}

// TestTooManyMaps decodes nested maps, each of which takes more memory than its text allows.
func TestTooManyMaps(t *testing.T) {
	const depth, chains = 9000, 8
	chain := strings.Repeat(`{"":`, depth) + "{}" + strings.Repeat("}", depth)
	text := `{"kind":"K","spec":[` + strings.Repeat(chain+",", chains) + "{}]}"
	for _, noSharing := range []bool{true, false} {
		d := newDecoder(t, wire.Options{NoSharing: noSharing})
		_, err := d.Decode([]byte(text), nil)
		if e, ok := errors.AsType[*wire.ExpansionError](err); !ok || e.Size != len(text) {
			t.Errorf("NoSharing %t: %v", noSharing, err)
		}
		compare(t, d, []byte(`{"kind":"K","spec":{"well":"again"}}`))
	}
}

// TestStatsOfFields names the fields that were looked up; names must not grow without bound.
func TestStatsOfFields(t *testing.T) {
	d := newDecoder(t, wire.Options{})
	const text = `{"kind":"K","n":1,"nothing":null,"spec":{"a":"text","b":{"c":"more"}}}`
	compare(t, d, []byte(text))
	compare(t, d, []byte(text))
	var names []string
	for name := range d.Stats().Fields {
		names = append(names, name)
	}
	slices.Sort(names)
	if want := []string{"kind", "spec", "spec.a", "spec.b", "spec.b.c"}; !slices.Equal(names, want[:0]) && !slices.Equal(names, want) && !subset(names, want) {
		t.Errorf("fields %q, want some of %q", names, want)
	}
	if got := d.Stats(); got.Objects != 2 || got.Bytes != 2*uint64(len(text)) {
		t.Errorf("%d objects of %d bytes", got.Objects, got.Bytes)
	}
	const depth = 1000
	compare(t, d, []byte(`{"kind":"K","deep":`+strings.Repeat(`{"abcdefgh":`, depth)+`"x"`+strings.Repeat("}", depth)+"}"))
	for name := range d.Stats().Fields {
		if len(name) > 2*maxPath {
			t.Errorf("a field has a name of %d bytes", len(name))
		}
	}
}

func subset(some, all []string) bool {
	return !slices.ContainsFunc(some, func(s string) bool { return !slices.Contains(all, s) })
}

// TestStatsBesideDecode: Stats does not disturb a running Decode.
func TestStatsBesideDecode(t *testing.T) {
	d, err := NewTyped[*unstructured.Unstructured](wire.Options{})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		d.Stats()
		_, err := d.Decode([]byte(`{"kind":"K"}`), nil)
		done <- err
	}()
	select {
	case err := <-done:
		if got := d.Stats(); err != nil || got.Objects != 1 || got.Bytes != uint64(len(`{"kind":"K"}`)) {
			t.Errorf("%v, %+v", err, got)
		}
	case <-time.After(time.Minute):
		t.Fatal("Decode waits for ever behind Stats")
	}
}

// TestNoDocument distinguishes texts that are no object from truncated ones.
func TestNoDocument(t *testing.T) {
	typed, err := NewTyped[*unstructured.Unstructured](wire.Options{Trim: []string{"a.b"}})
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{"": "unexpected EOF", "7": "instead of an object", "7 8": "more data", "  ": "unexpected EOF", `{"a":1}{}`: "more data", `{`: "EOF"} {
		_, untypedErr := newDecoder(t, wire.Options{}).Decode([]byte(text), nil)
		_, typedErr := typed.Decode([]byte(text), nil)
		for _, err := range []error{untypedErr, typedErr} {
			if _, panicked := errors.AsType[*wire.PanicError](err); err == nil || panicked || !strings.Contains(err.Error(), want) {
				t.Errorf("%q: %v, want %q", text, err, want)
			}
		}
	}
}

// TestEqualScalarsAreOne: objects with the same string or large number share it.
func TestEqualScalarsAreOne(t *testing.T) {
	d := newDecoder(t, wire.Options{})
	decode := func(i int) map[string]any {
		return compare(t, d, fmt.Appendf(nil, `{"kind":"K","name":"n%d","node":"a node"}`, i)).Object
	}
	first := decode(0)
	for i := range 20 {
		if unsafe.StringData(decode(i)["node"].(string)) != unsafe.StringData(first["node"].(string)) {
			t.Fatal("equal strings are stored twice")
		}
	}
}

// TestFieldsTakeMemory: their memory is counted.
func TestFieldsTakeMemory(t *testing.T) {
	d := newDecoder(t, wire.Options{})
	compare(t, d, []byte(`{"kind":"K"}`))
	before := d.Stats().TableBytes
	text := `{"kind":"K"`
	for i := range 100 {
		text += fmt.Sprintf(`,"n%d":null`, i)
	}
	compare(t, d, []byte(text+"}"))
	if got := d.Stats().TableBytes - before; got < 100*fieldBytes || got > 200*fieldBytes {
		t.Errorf("a hundred fields take %d bytes", got)
	}
}

// spentOn is the model of the memory that value i of a document takes of its allowance, if nothing is shared.
func spentOn(b *builder, data []byte, i int32) (spent int) {
	n := b.tape.nodes[i]
	raw := string(data[n.start:n.end])
	switch n.kind {
	case kindString:
		if raw != `""` {
			spent = 16 + len(raw)
		}
	case kindNumber:
		spent = 8
	case kindBeginArray:
		spent = 24 + 16*int(n.size)
		for at := i + 1; at < n.next; at = b.tape.nodes[at].next {
			spent += spentOn(b, data, at)
		}
	case kindBeginObject:
		spent = mapBytes(int(n.size))
		for at := i + 1; at < n.next; at = b.tape.nodes[at+1].next {
			spent += spentOn(b, data, at+1)
		}
	}
	return spent
}

// TestMemoryIsCounted compares the memory spent on decoding with the model.
func TestMemoryIsCounted(t *testing.T) {
	docs, compared := newDocuments(testseed.Seed(t)), 0
	for range 300 {
		data := docs.next()
		d := newDecoder(t, wire.Options{NoSharing: true})
		if _, err := d.Decode(data, nil); err != nil || d.build.hasDuplicates {
			continue
		}
		compared++
		if spent, want := wire.Allowance(len(data))-d.build.allowed, spentOn(&d.build, data, 0); spent != want {
			t.Fatalf("%q: %d bytes are counted, want %d", data, spent, want)
		}
	}
	if compared < 50 {
		t.Errorf("%d documents were compared", compared)
	}
}
