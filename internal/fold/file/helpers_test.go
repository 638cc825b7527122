package file

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/tidings/tidings/internal/fold"
	"github.com/tidings/tidings/internal/wire"
	"github.com/tidings/tidings/internal/wire/proto"
	"github.com/tidings/tidings/internal/wire/wiretest"
)

var (
	testKey    = bytes.Repeat([]byte("key!"), 8)
	testHeader = Header{
		Identity:         map[string]string{"cluster": "1234", "type": "v1/Pod", "trim": ""},
		ResourceVersions: map[string]string{"": "71000123", "shop": "71000100"},
		Written:          time.Unix(1_760_000_000, 123),
	}
	bothOptions = map[string]Options{"plain": {}, "encrypted": {Key: testKey}}
)

// entry is a record with the bytes that its object opens to.
type entry struct {
	record Record
	opened []byte
}

// pods returns n pods, some packed with dictionaries and some without.
func pods(t testing.TB, n int) []entry {
	t.Helper()
	return packPods(t, wiretest.Pods(n, 1), nil)
}

// similarPods returns pods that are mostly patches of a template or two.
func similarPods(t testing.TB, n int) []entry {
	t.Helper()
	dec, err := proto.New[*corev1.Pod](wire.Options{})
	if err != nil {
		t.Fatal(err)
	}
	d, many := dec.NewDiffer(), wiretest.Pods(500, 1)
	slices.SortStableFunc(many, func(a, b *corev1.Pod) int { return cmp.Compare(a.GenerateName, b.GenerateName) })
	at := 0 // start of the n most similar pods
	for i := range len(many) - n + 1 {
		if many[i].GenerateName == many[i+n*2/3].GenerateName {
			at = i
		}
	}
	entries := packPods(t, many[at:at+n], func(dst, base, data []byte, most int) ([]byte, bool) { return d.Diff(dst, 0, base, data, most) })
	if first := entries[0].record.Object.Dictionary(); first == nil || !first.IsTemplate() {
		t.Fatal("the objects got no template")
	}
	return entries
}

func packPods(t testing.TB, pods []*corev1.Pod, differ fold.Differ) []entry {
	t.Helper()
	var p fold.Packer
	p.SetDiffer(differ)
	var out []entry
	var batch [][]byte
	for i, pod := range pods {
		data, err := pod.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		record := Record{
			Namespace: pod.Namespace, Name: pod.Name, UID: string(pod.UID), ResourceVersion: pod.ResourceVersion,
			Extra: fmt.Sprint("extra ", i),
		}
		out, batch = append(out, entry{record, data}), append(batch, data)
	}
	for from := 0; from < len(batch); from += 300 {
		for i, packed := range p.PackAll(batch[from:min(len(batch), from+300)]) {
			out[from+i].record.Object = packed
		}
	}
	return out
}

// encode returns the file of these entries.
func encode(t testing.TB, entries []entry, opts Options) []byte {
	t.Helper()
	var buf bytes.Buffer
	w, err := NewWriter(&buf, testHeader, opts)
	if err != nil {
		t.Fatal(err)
	}
	if err := writeEntries(w, entries); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

func writeEntries(w *Writer, entries []entry) error {
	for _, e := range entries {
		if err := w.Write(e.record); err != nil {
			return err
		}
	}
	return nil
}

// decode reads a file to its end.
func decode(data []byte, opts Options) (Header, []Record, error) {
	r, err := NewReader(bytes.NewReader(data), opts)
	if err != nil {
		return Header{}, nil, err
	}
	records, err := collect(r)
	return r.Header(), records, err
}

func collect(r *Reader) ([]Record, error) {
	var out []Record
	for record, err := range r.Records() {
		if err != nil {
			return out, err
		}
		out = append(out, record)
	}
	return out, nil
}

// mustEqual fails the test unless the records equal the entries, and open to the same bytes.
func mustEqual(t testing.TB, records []Record, want []entry) {
	t.Helper()
	if len(records) != len(want) {
		t.Fatalf("%d records, want %d", len(records), len(want))
	}
	for i, got := range records {
		opened, err := got.Object.Open(nil)
		if err != nil || !bytes.Equal(opened, want[i].opened) {
			t.Fatalf("record %d opens to %d bytes, want %d: %v", i, len(opened), len(want[i].opened), err)
		}
		got.Object = want[i].record.Object
		if got != want[i].record {
			t.Fatalf("record %d is %+v, want %+v", i, got, want[i].record)
		}
	}
}

func mustEqualHeader(t testing.TB, got, want Header) {
	t.Helper()
	if !maps.Equal(got.Identity, want.Identity) || !maps.Equal(got.ResourceVersions, want.ResourceVersions) || !got.Written.Equal(want.Written) {
		t.Fatalf("the header is %+v, want %+v", got, want)
	}
}
