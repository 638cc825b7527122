package proto

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"reflect"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/tidings/tidings/internal/wire"
)

// oddInputs are encodings that no server writes.
var oddInputs = [][]byte{
	{},
	{0x0a, 0x00, 0x0a, 0x00},            // a message twice
	{0x0a, 0x04, 0x0a, 0x01, 'a', 0x0a}, // truncated
	{0x0b, 0x0c},                        // a group
	{0x0b, 0x0b, 0x0c},                  // an open group
	{0x8a, 0x80, 0x00, 0x00},            // an overlong tag
	{0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x01},             // a varint of 11 bytes
	{0x0a, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01},             // a negative length
	{0x0a, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f},                   // a length that overflows an index
	{0x0a, 0x0a, 0x5a, 0x08, 0x0a, 0x09, 'a', 'b', 'c', 'd', 'e', 'f'},             // a map entry whose key is longer than the entry
	{0x0a, 0x08, 0x5a, 0x06, 0x08, 0x01, 'k', 0x10, 0x01, 'v'},                     // a map entry with other wire types
	{0x12, 0x06, 0x12, 0x01, 0x0a, 0x42, 0x01, 0x0a, 0x12, 0x03, 0x12, 0x01, 0x0a}, // lists in several runs
}

// Run these with -fuzzminimizetime 1x: what an input covers depends on earlier inputs, so minimizing is futile.

// FuzzDecodePod compares with the generated decoder. The decoders are reused for all inputs, so that table entries of one meet the next.
func FuzzDecodePod(f *testing.F) {
	for _, data := range append(encodedPods(f, 5, 1), oddInputs...) {
		f.Add(data)
	}
	typ := reflect.TypeFor[*corev1.Pod]()
	decoders := fuzzDecoders(f, typ)
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, d := range decoders {
			if err := sameVerdict(d, typ, data); err != nil {
				t.Fatal(err)
			}
		}
	})
}

func fuzzDecoders(t testing.TB, typ reflect.Type) []*untyped {
	t.Helper()
	var out []*untyped
	for _, opts := range []wire.Options{{}, {NoSharing: true}, {MaxTableBytes: 2048}, keeping} {
		d, err := newUntyped(typ, opts)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, d)
	}
	beside, err := newUntyped(typ, wire.Options{})
	if err != nil {
		t.Fatal(err)
	}
	beside.beside = true
	return append(out, beside)
}

// FuzzDecodeAny does the same for a type chosen by which.
func FuzzDecodeAny(f *testing.F) {
	types := registered()
	filler := newFiller(1)
	for i, typ := range types {
		f.Add(uint16(i), encodings(f, filler, typ, 1)[0])
	}
	for i, data := range oddInputs {
		f.Add(uint16(i*31), data)
	}
	decoders := map[reflect.Type][]*untyped{}
	f.Fuzz(func(t *testing.T, which uint16, data []byte) {
		typ := types[int(which)%len(types)]
		if decoders[typ] == nil {
			decoders[typ] = fuzzDecoders(t, typ)
		}
		for _, d := range decoders[typ] {
			if err := sameVerdict(d, typ, data); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// FuzzListReader compares the items with those of the generated decoder, if that accepts the list.
func FuzzListReader(f *testing.F) {
	_, data := testList(f, 3)
	f.Add(data)
	f.Add(data[:len(data)-4])
	f.Add([]byte("k8s\x14\x12\x12\x12\x10\x95 \x88\x95\x95\x95 \x88\x95\x95\x95XX\xff\xffX")) // a message, except for the magic
	f.Add([]byte{unknownRaw<<3 | bytesWire, 0})
	for _, odd := range oddInputs {
		f.Add(append([]byte(magic), odd...))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var got [][]byte
		r := NewListReader(bufio.NewReaderSize(bytes.NewReader(data), 64), 1<<20)
		item, err := r.Next()
		for ; err == nil; item, err = r.Next() {
			got = append(got, bytes.Clone(item))
		}
		envelope, whole := bytes.CutPrefix(data, []byte(magic))
		if !whole {
			if !errors.Is(err, ErrNoMagic) && !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Fatalf("the magic is missing, got %v", err)
			}
			return
		}
		raw, once := only(envelope, unknownRaw)
		var list metav1.List // with items that are messages with bytes
		if !once || (&runtime.Unknown{}).Unmarshal(envelope) != nil || (&corev1.PodList{}).Unmarshal(raw) != nil {
			return
		}
		if err != io.EOF {
			t.Fatalf("the generated decoder accepts it, got %v", err)
		}
		want := 0
		if err := eachField(raw, func(num int32, b []byte) error {
			if num == listMeta {
				return list.ListMeta.Unmarshal(b)
			}
			if want >= len(got) || !bytes.Equal(b, got[want]) {
				t.Fatalf("item %d differs", want)
			}
			want++
			return nil
		}, listItems); err != nil {
			t.Fatal(err)
		}
		if want != len(got) || !reflect.DeepEqual(list.ListMeta, r.Meta()) {
			t.Fatalf("got %d items and %+v, want %d and %+v", len(got), r.Meta(), want, list.ListMeta)
		}
	})
}

// FuzzWatchEvent compares events and envelopes with the generated decoder.
func FuzzWatchEvent(f *testing.F) {
	_, list := testList(f, 1)
	frame, err := (&metav1.WatchEvent{Type: "ADDED", Object: runtime.RawExtension{Raw: list}}).Marshal()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(frame)
	for _, odd := range oddInputs {
		f.Add(odd)
	}
	f.Fuzz(func(t *testing.T, frame []byte) {
		var want metav1.WatchEvent
		wantErr := want.Unmarshal(frame)
		got, err := ParseWatchEvent(frame)
		if (err != nil) != (wantErr != nil) {
			t.Fatalf("event: got error %v, want %v", err, wantErr)
		}
		if err == nil && (string(got.Type) != want.Type || !bytes.Equal(got.Object, want.Object.Raw)) {
			t.Fatalf("event: got %q, want %q", got, want)
		}
		var unknown runtime.Unknown
		wantErr = unknown.Unmarshal(frame)
		envelope, err := ParseEnvelope(append([]byte(magic), frame...))
		if (err != nil) != (wantErr != nil) {
			t.Fatalf("envelope: got error %v, want %v", err, wantErr)
		}
		if err == nil && (string(envelope.Kind) != unknown.Kind || string(envelope.APIVersion) != unknown.APIVersion ||
			!bytes.Equal(envelope.Raw, unknown.Raw) || string(envelope.ContentType) != unknown.ContentType ||
			string(envelope.ContentEncoding) != unknown.ContentEncoding) {
			t.Fatalf("envelope: got %q, want %q", envelope, unknown)
		}
	})
}
