package json

import (
	"bytes"
	"io"
	"testing"
	"testing/iotest"

	"github.com/tidings/tidings/internal/wire"
)

// corpus are the seed documents.
func corpus(f *testing.F) {
	docs := newDocuments(1)
	for range 40 {
		f.Add(docs.next())
	}
}

// FuzzDecode compares with upstream, using one decoder for all inputs and a new one.
func FuzzDecode(f *testing.F) {
	corpus(f)
	old := newDecoder(f, wire.Options{MaxTableBytes: 1 << 20})
	f.Fuzz(func(t *testing.T, data []byte) {
		compare(t, old, data)
		fresh := newDecoder(t, wire.Options{})
		compare(t, fresh, data)
		compare(t, fresh, data)
		fresh.Peek(data)
	})
}

// FuzzExtent looks for the end of valid documents.
func FuzzExtent(f *testing.F) {
	corpus(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		if !isValid(data) {
			return
		}
		s := newStream(iotest.HalfReader(bytes.NewReader(append(data, " 0"...))), 0)
		got, err := s.read()
		if want := bytes.Trim(data, " \t\r\n"); err != nil || !bytes.Equal(got, want) {
			t.Fatalf("in %q the first value is %q, %v; want %q", data, got, err, want)
		}
	})
}

// FuzzTrim compares trimming the bytes with trimming the decoded value.
func FuzzTrim(f *testing.F) {
	corpus(f)
	trim, err := newTrim([]string{"a.b", "metadata.labels", "spec"})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		cut := cutter{trim: trim}
		text, err := cut.trimmed(data)
		want, wantErr := upstream(data)
		if wantErr == nil && err != nil {
			t.Fatalf("trim %q: %v", data, err)
		}
		if wantErr != nil {
			return
		}
		remove(want.Object, "a", "b")
		remove(want.Object, "metadata", "labels")
		remove(want.Object, "spec")
		got := compare(t, newDecoder(t, wire.Options{}), text)
		if string(must(t, got)) != string(must(t, want)) {
			t.Fatalf("trim %q: got %v, want %v", data, got, want)
		}
	})
}

// FuzzStreams reads arbitrary text as a watch and as a list, in small pieces and at once: both must end with the same error.
func FuzzStreams(f *testing.F) {
	corpus(f)
	f.Add([]byte(`{"type":"ADDED","object":{"a":1}}{"type":"ADDED","object":{}}`))
	f.Add([]byte(`{"kind":"PodList","metadata":{"resourceVersion":"1"},"items":[{"a":1},{}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		type read func(io.Reader, int) ([]string, error)
		list := func(src io.Reader, limit int) ([]string, error) {
			items, _, err := readList(src, limit)
			return items, err
		}
		for _, read := range []read{allEvents, list} {
			whole, err := read(bytes.NewReader(data), 1000)
			pieces, pieceErr := read(iotest.OneByteReader(bytes.NewReader(data)), 1000)
			if err.Error() != pieceErr.Error() || len(whole) != len(pieces) {
				t.Fatalf("read %q: %d values and %v at once, %d and %v in pieces", data, len(whole), err, len(pieces), pieceErr)
			}
		}
	})
}

// allEvents skips malformed events.
func allEvents(src io.Reader, limit int) (events []string, err error) {
	r := NewEventReader(src, limit)
	for {
		kind, object, err := r.Next()
		if r.err != nil {
			return events, err
		}
		events = append(events, kind+" "+string(object))
	}
}
