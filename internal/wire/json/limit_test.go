package json

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

// TestLimitIsOfOneValue: data before a value in the buffer does not count, and a value of exactly the limit fits.
func TestLimitIsOfOneValue(t *testing.T) {
	event := func(size int) string {
		const frame = `{"type":"ADDED","object":{"a":""}}`
		return fmt.Sprintf(`{"type":"ADDED","object":{"a":%q}}`, strings.Repeat("x", size-len(frame)))
	}
	const limit, n = 100, 300
	text := strings.Repeat(event(limit), n)
	for _, cut := range []int{1, 40, 99} { // where the first read ends within an event
		src := io.MultiReader(strings.NewReader(text[:150*limit+cut]), strings.NewReader(text[150*limit+cut:]))
		if events, err := readEvents(src, limit); err != io.EOF || len(events) != n {
			t.Errorf("%d events, %v", len(events), err)
		}
	}
	if events, err := readEvents(iotest.OneByteReader(strings.NewReader(event(limit))), limit); err != io.EOF || len(events) != 1 {
		t.Errorf("byte by byte: %d events, %v", len(events), err)
	}
	_, err := readEvents(strings.NewReader(event(limit)+event(limit+1)), limit)
	if e, ok := errors.AsType[*LimitError](err); !ok || e.What != "watch event" || e.Limit != limit {
		t.Errorf("an event over the limit: %v", err)
	}
}

// TestLimitOfHead bounds the metadata of a list.
func TestLimitOfHead(t *testing.T) {
	const head = `{"a":"12345678","b":"12345678",`
	text := head + `"items":[{}]}`
	if items, _, err := readList(strings.NewReader(text), len(head)); err != io.EOF || len(items) != 1 {
		t.Errorf("just the limit: %q, %v", items, err)
	}
	_, _, err := readList(strings.NewReader(text), len(head)-1)
	if e, ok := errors.AsType[*LimitError](err); !ok || e.What != "list without its items" {
		t.Errorf("one byte more: %v", err)
	}
}

// TestLargeValuesBetweenSmallOnes uses buffers of all sizes.
func TestLargeValuesBetweenSmallOnes(t *testing.T) {
	var text strings.Builder
	var want []string
	for _, size := range []int{1, 63, 64, 65, 1000, busyBuffer - 1, busyBuffer, busyBuffer + 1, 3, keepBuffer, 2 * keepBuffer, 10, 1 << 20, 1, 1} {
		object := fmt.Sprintf(`{"a":%q}`, strings.Repeat("x", size))
		want = append(want, object)
		fmt.Fprintf(&text, `{"type":"ADDED","object":%s}`+"\n", object)
	}
	for name, src := range map[string]io.Reader{
		"at once": strings.NewReader(text.String()), "in halves": iotest.HalfReader(strings.NewReader(text.String())),
		"with the end": iotest.DataErrReader(strings.NewReader(text.String())),
	} {
		r := NewEventReader(src, 0)
		for i := range want {
			kind, object, err := r.Next()
			if err != nil || kind != "ADDED" || string(object) != want[i] {
				t.Fatalf("%s: event %d of %d bytes: %s, %d bytes, %v", name, i, len(want[i]), kind, len(object), err)
			}
		}
		if _, _, err := r.Next(); err != io.EOF {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestBrokenHeads: the errors say where a head is malformed.
func TestBrokenHeads(t *testing.T) {
	for text, want := range map[string]int{`{"metadata":7,"items":[{},{}]}`: 0, `{"items":[{},{}],"metadata":7}`: 2, `{"items":[{}],"kind":7}`: 1} {
		items, _, err := readList(strings.NewReader(text), 0)
		if err == nil || !strings.Contains(err.Error(), "cannot unmarshal") || !strings.Contains(err.Error(), fmt.Sprintf("after %d items", want)) || len(items) != want {
			t.Errorf("%s: %d items, %v", text, len(items), err)
		}
	}
}

// TestEventTypes: a type may have one letter, but not none.
func TestEventTypes(t *testing.T) {
	for raw, want := range map[string]string{`"X"`: "X", `"ADDED"`: "ADDED", `"MODIFIED"`: "MODIFIED", `"DELETED"`: "DELETED", `"BOOKMARK"`: "BOOKMARK", `"ERROR"`: "ERROR", `"\u0041DDED"`: "ADDED"} {
		kind, _, err := NewEventReader(strings.NewReader(`{"type":`+raw+`,"object":{}}`), 0).Next()
		if kind != want || err != nil {
			t.Errorf("%s: %q, %v", raw, kind, err)
		}
	}
	if kind, _, err := NewEventReader(strings.NewReader(`{"type":"","object":{}}`), 0).Next(); !errors.Is(err, ErrEvent) {
		t.Errorf("no type: %q, %v", kind, err)
	}
}

// pieces20 reads twenty bytes at a time.
type pieces20 struct{ io.Reader }

func (r pieces20) Read(p []byte) (int, error) { return r.Reader.Read(p[:min(len(p), 20)]) }

// TestManySmallPieces takes forever if each piece of a large value copies what came before.
func TestManySmallPieces(t *testing.T) {
	text := fmt.Sprintf(`{"type":"ADDED","object":{"a":%q}}`, strings.Repeat("x", 8<<20))
	if events, err := readEvents(pieces20{strings.NewReader(text)}, 0); err != io.EOF || len(events) != 1 {
		t.Errorf("%d events, %v", len(events), err)
	}
	text = fmt.Sprintf(`{"number":%s,"items":[{}]}`, strings.Repeat("1", 2<<20))
	if items, _, err := readList(pieces20{strings.NewReader(text)}, 0); err != io.EOF || len(items) != 1 {
		t.Errorf("%d items, %v", len(items), err)
	}
}

// TestNoItems: null or empty items may be anywhere among the members.
func TestNoItems(t *testing.T) {
	for _, text := range []string{`{"items":null,"kind":"PodList"}`, `{"kind":"PodList","items":null,"metadata":{}}`, `{"kind":"PodList","items":[],"metadata":{}}`} {
		if items, head, err := readList(strings.NewReader(text), 0); err != io.EOF || len(items) > 0 || head.Kind != "PodList" {
			t.Errorf("%s: %q, %+v, %v", text, items, head, err)
		}
	}
}

// lastRoom returns its pieces one by one, and records how much room there is for each, including the end.
type lastRoom struct {
	pieces []string
	room   int
}

func (r *lastRoom) Read(p []byte) (int, error) {
	if r.room = len(p); len(r.pieces) == 0 {
		return 0, io.EOF
	}
	n := copy(p, r.pieces[0])
	if r.pieces[0] = r.pieces[0][n:]; r.pieces[0] == "" {
		r.pieces = r.pieces[1:]
	}
	return n, nil
}

// TestWaitingStreamsAreSmall: a stream that has caught up waits with a small buffer, and that is still its own.
func TestWaitingStreamsAreSmall(t *testing.T) {
	event := func(size int) string {
		return fmt.Sprintf(`{"type":"ADDED","object":{"a":%q}}`, strings.Repeat("x", size))
	}
	for _, pieces := range [][]string{{event(1000)}, {event(1000), event(10)}, {event(100_000), event(10), event(1000)}, {event(1000) + event(2000)}, {event(1 << 20)}} {
		want := strings.Count(strings.Join(pieces, ""), "ADDED")
		src := &lastRoom{pieces: pieces}
		if events, err := readEvents(src, 0); err != io.EOF || len(events) != want || src.room > quietBuffer {
			t.Errorf("%d of %d events, %v; it waits with room for %d bytes", len(events), want, err, src.room)
		}
	}
}
