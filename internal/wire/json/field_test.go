package json

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tidings/tidings/internal/wire"
	"github.com/tidings/tidings/internal/wire/share"
)

// countFields counts the fields below f, which must be within their bounds.
func countFields(t *testing.T, f *field) (n int) {
	t.Helper()
	if len(f.children) > maxChildren || f.path > maxPath {
		t.Errorf("field %s has %d fields, and a path of %d bytes", f.name, len(f.children), f.path)
	}
	for _, m := range f.children {
		if m.path != f.path+len(m.raw) {
			t.Errorf("field %s has a path of %d bytes", m.name, m.path)
		}
		n += 1 + countFields(t, m)
	}
	return n
}

// TestFieldsAreBounded decodes documents that use data as names. Members beyond the bounds are
// decoded all the same, and counted under a star.
func TestFieldsAreBounded(t *testing.T) {
	d := newDecoder(t, wire.Options{})
	const outer, inner = maxChildren - 1, 100
	for i := range outer {
		var text strings.Builder
		fmt.Fprintf(&text, `{"kind":"K","n%d":{"kind":"inner"`, i)
		for j := range inner {
			fmt.Fprintf(&text, `,"m%d":{"v":"text %d"}`, j, i)
		}
		compare(t, d, []byte(text.String()+"}}"))
		if count := countFields(t, d.build.fields.root); count != d.build.fields.count || count > maxFields {
			t.Fatalf("%d fields, and %d are counted", count, d.build.fields.count)
		}
	}
	if got := d.build.fields.count; got != maxFields {
		t.Errorf("%d fields, want all %d that there is room for", got, maxFields)
	}
	if got := d.Stats().Fields["*"]; got.Lookups == 0 {
		t.Error("nothing is counted of the fields that found no room")
	}
	deep := newDecoder(t, wire.Options{})
	const name = `"abcdefgh"`
	compare(t, deep, []byte(`{"kind":"K",`+name+`:`+strings.Repeat(`{`+name+`:`, 100)+"1"+strings.Repeat("}", 101)))
	if got, want := countFields(t, deep.build.fields.root), 1+maxPath/len(name); got != want {
		t.Errorf("%d fields one in another, want %d", got, want)
	}
}

// A field that stopped sharing because nothing repeated starts again when values of any kind repeat.
func TestFieldIsTakenUpAgain(t *testing.T) {
	for text, rate := range map[string]func(root *field) *share.Rate{
		`{"kind":"K","spec":{"value":%q}}`: func(root *field) *share.Rate { return &root.children[`"spec"`].children[`"value"`].maps },
		`{"kind":"K","value":%q}`:          func(root *field) *share.Rate { return &root.children[`"value"`].rate },
		`{"kind":"K","list":[%q]}`:         func(root *field) *share.Rate { return &root.children[`"list"`].rate },
	} {
		d := newDecoder(t, wire.Options{})
		decode := func(value string) *share.Rate {
			if _, err := d.Decode(fmt.Appendf(nil, text, value), nil); err != nil {
				t.Fatal(err)
			}
			return rate(d.build.fields.root)
		}
		for i := range 2 * int(containers.Window) {
			decode(fmt.Sprint("unique", i))
		}
		if decode("unique").Mode != share.Sampling {
			t.Fatalf("%s: a field that never repeated is still looked up", text)
		}
		taken := false
		for i := 0; i < 200_000 && !taken; i++ { // a sample may contain few of the values, or none
			taken = decode(fmt.Sprint("one of many, ", i%200)).Mode != share.Sampling
		}
		if !taken {
			t.Errorf("%s: a field that repeats is not looked up again", text)
		}
	}
}

// A field with more values than int(containers.Window) lookups can repeat too. It must not matter
// that the values differ in a few bytes of long texts.
func TestFieldWithManyValues(t *testing.T) {
	const values = 250
	d := newDecoder(t, wire.Options{})
	text := func(i int) []byte {
		return fmt.Appendf(nil, `{"kind":"K","node":"a long prefix of a name, %03d, and a long suffix of it"}`, i%values)
	}
	for i := range int(4000 * containers.Sampled) { // a sample may contain few of the values, or none
		compare(t, d, text(i))
		if i > int(2*containers.Window) && d.build.fields.root.children[`"node"`].rate.Mode != share.Sampling {
			return
		}
	}
	t.Error("a field that repeats is not looked up")
}
