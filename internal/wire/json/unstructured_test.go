package json

import (
	"fmt"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/tidings/tidings/internal/testseed"
	"github.com/tidings/tidings/internal/wire"
	"github.com/tidings/tidings/internal/wire/share"
	"github.com/tidings/tidings/internal/wire/wiretest"
)

// upstream decodes as client-go's dynamic client does.
func upstream(data []byte) (*unstructured.Unstructured, error) {
	object := &unstructured.Unstructured{}
	if _, _, err := unstructured.UnstructuredJSONScheme.Decode(data, nil, object); err != nil {
		return nil, err
	}
	return object, nil
}

func newDecoder(t testing.TB, opts wire.Options) *Unstructured {
	t.Helper()
	d, err := NewUnstructured(opts)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// compare decodes data with d and with upstream, and fails unless values and errors agree.
func compare(t *testing.T, d *Unstructured, data []byte) *unstructured.Unstructured {
	t.Helper()
	want, wantErr := upstream(data)
	got, err := d.Decode(data, nil)
	if (err == nil) != (wantErr == nil) {
		t.Fatalf("decode %.2000q: error is %v, upstream says %v", data, err, wantErr)
	}
	if !reflect.DeepEqual(got, want) {
		t.Fatalf("decode %.2000q:\ngot  %v\nwant %v", data, got, want)
	}
	return got
}

func TestDecodeEqualsUpstream(t *testing.T) {
	for name, opts := range map[string]wire.Options{
		"sharing": {}, "tiny table": {MaxTableBytes: 20_000}, "no sharing": {NoSharing: true},
	} {
		t.Run(name, func(t *testing.T) {
			seed := testseed.Seed(t)
			d, docs := newDecoder(t, opts), newDocuments(seed)
			for range 500 {
				d.Recheck()
				compare(t, d, docs.next())
			}
			if n := d.Stats().Corrupted; n != 0 {
				t.Errorf("%d stray writes are reported that nobody made", n)
			}
		})
	}
}

func TestDecodeRealisticEqualsUpstream(t *testing.T) {
	d := newDecoder(t, wire.Options{})
	for _, data := range append(wiretest.CustomResources(150, 1), podDocs(t, 150)...) {
		compare(t, d, data)
	}
}

// Parts shared between objects must never change: every object is compared again after all were decoded.
func TestDecodedObjectsStayAsTheyAre(t *testing.T) {
	seed := testseed.Seed(t)
	d, docs := newDecoder(t, wire.Options{MaxTableBytes: 100_000}), newDocuments(seed)
	got, want := map[int]*unstructured.Unstructured{}, map[int]*unstructured.Unstructured{}
	for i := range 500 {
		data := docs.next()
		object := compare(t, d, data)
		clear(data) // the decoder must not keep it
		if object != nil {
			got[i], want[i] = object, object.DeepCopy()
		}
	}
	runtime.GC() // everything that objects refer to must be reachable for the collector
	for i := range got {
		if !reflect.DeepEqual(got[i], want[i]) {
			t.Fatalf("object %d changed:\ngot  %v\nwant %v", i, got[i], want[i])
		}
	}
}

func TestDecodeEdges(t *testing.T) {
	deep := func(n int) string {
		return `{"kind":"K","a":` + strings.Repeat("[", n) + strings.Repeat("]", n) + "}"
	}
	wide := func(n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, `,"n%d":{"n%d":%d}`, i, i, i)
		}
		return `{"kind":"K"` + b.String() + "}"
	}
	for name, text := range map[string]string{
		"empty": "", "space": " \n", "null": "null", "array": "[]", "string": `"a"`, "no kind": "{}", "kind is a number": `{"kind":1}`,
		"malformed version": `{"kind":"K","apiVersion":"a/b/c"}`, "two values": `{"kind":"K"}{}`, "junk behind": `{"kind":"K"}x`,
		"space around": " {\"kind\":\"K\"}\n", "byte order mark": "\ufeff{\"kind\":\"K\"}", "items": `{"kind":"K","items":[{"a":1}]}`,
		"two names": `{"kind":"K","a":{"x":"unique"},"a":"last"}`, "two spellings": `{"kind":"K","a":"first","\u0061":2}`,
		"deepest": deep(9999), "too deep": deep(10000), "more names than fields": wide(maxFields + 100), "huge number": `{"kind":"K","a":1e999}`,
		"huge number twice": `{"kind":"K","a":[{"b":1e999}],"b":[{"b":1e999}]}`,
	} {
		t.Run(name, func(t *testing.T) {
			d := newDecoder(t, wire.Options{})
			compare(t, d, []byte(text))
			compare(t, d, []byte(text))
		})
	}
}

// Nesting with duplicate names at each level, or with a long text in the middle, must not take quadratic time.
func TestDecodeHostileNesting(t *testing.T) {
	const depth = 3000
	long := strings.Repeat("x", 1<<20)
	twice := `{"kind":"K","a":` + strings.Repeat(`{"a":0,"a":`, depth) + "0" + strings.Repeat("}", depth+1)
	around := `{"kind":"K","a":` + strings.Repeat(`{"a":`, depth) + `"` + long + `"` + strings.Repeat("}", depth+1)
	d := newDecoder(t, wire.Options{})
	for range 2 {
		compare(t, d, []byte(twice))
		compare(t, d, []byte(around))
	}
	if fields := d.build.fields; fields.count != countFields(t, fields.root) || fields.count > maxFields || fields.bytes > 16<<20 {
		t.Errorf("%d fields take %d bytes", fields.count, fields.bytes)
	}
}

// TestTableForgets values that do not come again, and keeps those that do.
func TestTableForgets(t *testing.T) {
	d := newDecoder(t, wire.Options{})
	spec := func(text string) uintptr {
		object := compare(t, d, []byte(`{"kind":"K","spec":`+text+`}`))
		return reflect.ValueOf(object.Object["spec"]).Pointer()
	}
	for i := range 50 {
		spec(fmt.Sprintf(`{"once":"text %d"}`, i))
	}
	before, first := d.Stats().TableEntries, spec(`{"always":1}`)
	for range 3 * sweepEvery {
		if spec(`{"always":1}`) != first {
			t.Fatal("what is in use is not shared any more")
		}
	}
	if after := d.Stats().TableEntries; before < 50 || after > 10 {
		t.Errorf("of %d entries %d are left", before, after)
	}
}

func TestDecodeSharesEqualParts(t *testing.T) {
	d := newDecoder(t, wire.Options{})
	first := compare(t, d, []byte(`{"kind":"K","metadata":{"name":"a"},"spec":{"list":[1,2,{"x":"y"}]}}`))
	second := compare(t, d, []byte(`{"kind":"K","metadata":{"name":"b"},"spec":{"list":[1,2,{"x":"y"}]}}`))
	if reflect.ValueOf(first.Object["spec"]).Pointer() != reflect.ValueOf(second.Object["spec"]).Pointer() {
		t.Error("equal specs are stored twice")
	}
	stats := d.Stats()
	if stats.Objects != 2 || stats.Hits == 0 || stats.SharedBytes == 0 || stats.TableEntries == 0 || stats.TableBytes == 0 {
		t.Errorf("stats are %+v", stats)
	}
	if got := stats.Fields["spec"]; got.Lookups != 2 || got.Hits != 1 {
		t.Errorf("stats of spec are %+v", got)
	}
	if got := stats.Fields["spec.list"]; got.Lookups != 2 || got.Hits != 0 || got.Bytes != uint64(len(`[1,2,{"x":"y"}]{"x":"y"}`)) { // the list and the map in it; later the spec was found as a whole
		t.Errorf("stats of the list are %+v", got)
	}
	var sum wire.FieldStats
	for _, f := range stats.Fields {
		sum.Lookups, sum.Hits, sum.SharedBytes = sum.Lookups+f.Lookups, sum.Hits+f.Hits, sum.SharedBytes+f.SharedBytes
	}
	if sum.Lookups != stats.Lookups || sum.Hits != stats.Hits || sum.SharedBytes != stats.SharedBytes {
		t.Errorf("all fields have %+v, stats are %+v", sum, stats)
	}
}

// Values that repeat within an object are stored once, even if their field stopped sharing because
// nothing repeats between objects. An object that may be written to has them twice.
func TestDecodeSharesWithinAnObject(t *testing.T) {
	before := strings.Repeat("x", maxArenaText)
	for _, noSharing := range []bool{false, true} {
		d := newDecoder(t, wire.Options{NoSharing: noSharing})
		for i := range 4 * int(containers.Window) {
			object := compare(t, d, fmt.Appendf(nil, `{"kind":"K","before":%q,"a":{"t":%d},"b":{"t":%d}}`, before, i, i)).Object
			if same := reflect.ValueOf(object["a"]).Pointer() == reflect.ValueOf(object["b"]).Pointer(); same == noSharing {
				t.Fatalf("NoSharing is %t; that two maps of object %d are the same is %t", noSharing, i, same)
			}
		}
		if rate := d.build.fields.root.children[`"a"`].children[`"t"`].maps; !noSharing && rate.Mode != share.Sampling {
			t.Error("nothing repeats between objects and is still looked up")
		}
	}
}

// Maps in a list that repeat are shared even among many others that never do and start with the same name.
func TestDecodeSharesOneKindInAList(t *testing.T) {
	d := newDecoder(t, wire.Options{})
	volume := func(i int) uintptr {
		text := fmt.Sprintf(`{"kind":"K","spec":{"volumes":[{"name":"config","of":1},{"name":"a%d","with":{}},{"name":"b%d","with":{}},{"name":"c%d","with":{}}]}}`, i, i, i)
		object := compare(t, d, []byte(text))
		return reflect.ValueOf(object.Object["spec"].(map[string]any)["volumes"].([]any)[0]).Pointer()
	}
	first := volume(-1)
	for i := range 4 * int(containers.Window) {
		if volume(i) != first {
			t.Fatalf("object %d has its own map", i)
		}
	}
	volumes := d.build.fields.root.children[`"spec"`].children[`"volumes"`]
	if got := volumes.children[`"with"`].maps.Mode; got != share.Sampling {
		t.Errorf("maps that never repeat have mode %d", got)
	}
}

// A field of maps that never repeat stops sharing even if the second name in them is data and values below do repeat.
func TestDecodeGivesUpMapsOfDataNames(t *testing.T) {
	d := newDecoder(t, wire.Options{})
	const n = 4 * 256
	for i := range n {
		compare(t, d, fmt.Appendf(nil, `{"kind":"K","ips":{".":{},"10.0.0.%d":{".":{},"ip":{}}}}`, i))
	}
	if got := d.Stats().Fields["ips"].Lookups; got > n/2 {
		t.Errorf("maps that never repeat were looked up %d times of %d", got, n)
	}
}

// Equal texts are different values if different parts of them are trimmed.
func TestDecodeSharesOnlyWhatIsTrimmedAlike(t *testing.T) {
	for _, noSharing := range []bool{false, true} {
		d := newDecoder(t, wire.Options{Trim: []string{"b.t", "c.u", "d.x"}, NoSharing: noSharing})
		object, err := d.Decode([]byte(`{"kind":"K","a":{"t":1,"u":2},"b":{"t":1,"u":2},"c":{"t":1,"u":2},"d":{}}`), nil)
		if err != nil {
			t.Fatal(err)
		}
		t1, u2 := map[string]any{"t": int64(1)}, map[string]any{"u": int64(2)}
		want := map[string]any{"kind": "K", "a": map[string]any{"t": int64(1), "u": int64(2)}, "b": u2, "c": t1, "d": map[string]any{}}
		if !reflect.DeepEqual(object.Object, want) {
			t.Errorf("got %v, want %v", object.Object, want)
		}
		if d.build.hasDuplicates {
			t.Error("an object is built twice because something is trimmed from it")
		}
	}
}

func TestNoSharingObjectsMayBeWritten(t *testing.T) {
	text := []byte(`{"kind":"K","metadata":{"name":"a","labels":{}},"spec":{"list":[1,{"x":"y"}],"none":[]}}`)
	d := newDecoder(t, wire.Options{NoSharing: true})
	object := compare(t, d, text)
	object.SetLabels(map[string]string{"changed": "yes"})
	object.Object["spec"].(map[string]any)["list"].([]any)[1].(map[string]any)["x"] = "changed"
	object.Object["spec"].(map[string]any)["list"].([]any)[0] = "changed"
	compare(t, d, text)
}

func TestDefaultKind(t *testing.T) {
	d := newDecoder(t, wire.Options{})
	d.SetDefaultKind("v1", "Pod")
	for text, want := range map[string]string{
		`{"metadata":{"name":"a"}}`:                      "/v1, Kind=Pod",
		`{"kind":"Node","apiVersion":"v2","spec":{}}`:    "/v2, Kind=Node",
		`{"kind":"Node","metadata":{"name":"a"}}`:        "/, Kind=Node",
		`{"a":1,"b":2,"c":3,"d":4,"e":5,"f":6,"g":true}`: "/v1, Kind=Pod",
	} {
		object, err := d.Decode([]byte(text), nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := object.GroupVersionKind().String(); got != want {
			t.Errorf("decode %s: kind is %s, want %s", text, got, want)
		}
	}
	if _, err := d.Decode([]byte(`{"apiVersion":"v1"}`), nil); err == nil {
		t.Error("an object with apiVersion and no kind was taken")
	}
}

// Objects that never repeat must not make the tables grow without bound, and their memory must be freed again.
func TestTablesStayBounded(t *testing.T) {
	const limit = 512 << 10
	d := newDecoder(t, wire.Options{MaxTableBytes: limit})
	peak := uint64(0)
	for i := range 12_000 {
		text := fmt.Sprintf(`{"kind":"K","metadata":{"name":"n%d","labels":{"l%d":"v%d"}},"spec":{"a":["%d","%d"],"b":{"c":%d}}}`, i, i%9000, i/3, i/2, i, i)
		if _, err := d.Decode([]byte(text), nil); err != nil {
			t.Fatal(err)
		}
		peak = max(peak, uint64(int(d.build.table.Bytes())))
	}
	if peak > limit {
		t.Errorf("the table grew to %d bytes, the limit is %d", peak, limit)
	}
	if stats := d.Stats(); stats.TableBytes > limit+maxFields*2*fieldBytes {
		t.Errorf("the tables and fields take %d bytes", stats.TableBytes)
	}
	if rate := d.build.fields.root.children[`"metadata"`].children[`"name"`].rate; rate.Mode != share.Sampling {
		t.Error("names never repeat and are still looked up")
	}
}

// The memory of a huge document, or of ever new spellings of names, must not be kept.
func TestScratchIsGivenBack(t *testing.T) {
	d := newDecoder(t, wire.Options{Trim: []string{"trimmed"}})
	huge := `{"kind":"K","a":[` + strings.Repeat(`"x",`, 200_000) + `"x"],"b":"` + strings.Repeat("y", 1<<21) + `"}`
	for range 2 {
		if _, err := d.Decode([]byte(huge), nil); err != nil {
			t.Fatal(err)
		}
	}
	for i := range maxFields + 500 {
		name := ""
		for at, letter := range "trimmed" {
			if i>>at&1 == 1 {
				name += fmt.Sprintf(`\u%04x`, letter)
			} else {
				name += string(letter)
			}
		}
		object, err := d.Decode([]byte(fmt.Sprintf(`{"kind":"K",%q:1,"%s":{"a":1}}`, fmt.Sprint("n", i), name)), nil)
		if err != nil || len(object.Object) != 2 {
			t.Fatalf("name %s is not trimmed: %v, %v", name, object, err)
		}
	}
	for name, text := range map[string]string{
		"elements": `{"kind":"K","a":[` + strings.Repeat(`1,`, 2*maxKeptNodes) + `1]}`,
		"strings":  `{"kind":"K","a":[` + strings.Repeat(`{"b":"x"},`, 2*maxKeptNodes) + `1]}`,
	} {
		d := newDecoder(t, wire.Options{NoSharing: true})
		compare(t, d, []byte(text))
		if a := &d.build.arena; cap(a.pending) > maxKeptNodes || cap(a.elements) > maxKeptNodes {
			t.Errorf("%s: kept %d places and %d elements", name, cap(a.pending), cap(a.elements))
		}
	}
	b := &d.build
	if cap(b.tape.nodes) > maxKeptNodes || cap(b.arena.text) > maxScratch || cap(b.arena.pending) > maxKeptNodes || b.fields.count > maxFields {
		t.Errorf("kept %d nodes, %d bytes of text, %d places, %d fields", cap(b.tape.nodes), cap(b.arena.text), cap(b.arena.pending), b.fields.count)
	}
}
