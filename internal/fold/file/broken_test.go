package file

import (
	"bytes"
	"encoding/binary"
	"errors"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/tidings/tidings/internal/fold"
)

// TestEachByteCounts changes each byte of a file, and truncates it at each length.
func TestEachByteCounts(t *testing.T) {
	for name, opts := range bothOptions {
		eachByteCounts(t, name, encode(t, pods(t, 2), opts), opts)
	}
	eachByteCounts(t, "with a template", encode(t, similarPods(t, 6), Options{}), Options{})
}

func eachByteCounts(t *testing.T, name string, data []byte, opts Options) {
	t.Helper()
	for n := range data {
		if _, _, err := decode(data[:n], opts); !errors.Is(err, ErrBroken) {
			t.Fatalf("%s: cut off at %d of %d: %v", name, n, len(data), err)
		}
		broken := bytes.Clone(data)
		broken[n] ^= 1 << (n % 8)
		if _, _, err := decode(broken, opts); err == nil {
			t.Fatalf("%s: byte %d of %d can be changed", name, n, len(data))
		}
	}
	if _, _, err := decode(append(data, 0), opts); !errors.Is(err, ErrBroken) {
		t.Errorf("%s: a byte more: %v", name, err)
	}
}

// TestOtherTemplate has files with valid checksums but the wrong templates: the objects do not open.
func TestOtherTemplate(t *testing.T) {
	entries := similarPods(t, 6)
	header := frame(kindHeader, testHeader.append(nil)...)
	record := entries[3].record
	template := record.Object.Dictionary().AppendTo(nil)
	read := func(template []byte) ([]Record, error) {
		_, records, err := decode(forge(header, frame(kindDictionary, template...), frame(kindRecords, record.append(nil, 1)...), frame(kindEnd, 1, 1)), Options{})
		return records, err
	}
	records, err := read(template)
	if err != nil {
		t.Fatal(err)
	}
	mustEqual(t, records, entries[3:4])
	for n := 2; n <= len(template); n += 7 {
		changed := bytes.Clone(template)
		changed[n-1] ^= 1
		for _, other := range [][]byte{template[:n-1], changed} {
			records, err := read(other)
			if err == nil {
				_, err = records[0].Object.Open(nil)
			}
			if !errors.Is(err, ErrBroken) && !errors.Is(err, fold.ErrCorrupt) {
				t.Fatalf("an object of another template at byte %d: %v", n, err)
			}
		}
	}
}

// frames splits a file into the prologue and its frames.
func frames(data []byte) [][]byte {
	out := [][]byte{data[:prologueSize]}
	for rest := data[prologueSize:]; len(rest) > 0; {
		n := headSize + int(binary.LittleEndian.Uint32(rest[1:])) + checksumSize
		out, rest = append(out, rest[:n]), rest[n:]
	}
	return out
}

// TestEachFrameHasItsPlace swaps, drops, repeats, and transplants frames, all with valid checksums.
func TestEachFrameHasItsPlace(t *testing.T) {
	for name, opts := range bothOptions {
		entries := pods(t, 1500)
		parts, others := frames(encode(t, entries, opts)), frames(encode(t, entries, opts))
		if len(parts) < 8 {
			t.Fatalf("only %d frames", len(parts))
		}
		for i := 1; i < len(parts); i++ {
			dropped := slices.Delete(slices.Clone(parts), i, i+1)
			repeated := slices.Insert(slices.Clone(parts), i, parts[i])
			foreign := slices.Clone(parts)
			foreign[i] = others[i]
			changed := map[string][][]byte{"dropped": dropped, "repeated": repeated, "from another file": foreign}
			if i > 1 {
				swapped := slices.Clone(parts)
				swapped[i], swapped[i-1] = swapped[i-1], swapped[i]
				changed["swapped"] = swapped
			}
			for what, frames := range changed {
				if _, _, err := decode(bytes.Join(frames, nil), opts); !errors.Is(err, ErrBroken) {
					t.Errorf("%s: frame %d %s: %v", name, i-1, what, err)
				}
			}
		}
	}
}

// forge returns a file of arbitrary frames with valid checksums.
func forge(frames ...[]byte) []byte {
	prologue := newPrologue(false)
	framing, err := newFraming(prologue, nil)
	if err != nil {
		panic(err) // there is no key that could be wrong
	}
	out := bytes.NewBuffer(prologue)
	for _, frame := range frames {
		if err := framing.write(out, frame[0], frame[1:]); err != nil {
			panic(err) // only if the frame is larger than 64 MiB
		}
	}
	return out.Bytes()
}

func frame(kind byte, payload ...byte) []byte { return append([]byte{kind}, payload...) }

// TestForgedFiles have valid checksums and invalid content.
func TestForgedFiles(t *testing.T) {
	header := frame(kindHeader, testHeader.append(nil)...)
	record := Record{Name: "a"}
	for says, frames := range map[string][][]byte{
		"not a header":             {frame(kindEnd, 0, 0)},
		"header ends within":       {frame(kindHeader, 9)},
		"header has more than":     {append(slices.Clone(header), 0)},
		"over the limit of 65536":  {frame(kindHeader, make([]byte, maxHeader+1)...)},
		"cut off in frame 1":       {header},
		"unknown kind 77":          {header, frame(77)},
		"kind 1":                   {header, header},
		"less than two bytes":      {header, frame(kindDictionary)},
		"a dictionary of 8 bytes":  {header, frame(kindDictionary, make([]byte, 10)...)},
		"frame 1 ends within":      {header, frame(kindRecords, 1)},
		"refers to dictionary 3":   {header, frame(kindRecords, record.append(nil, 3)...)},
		"less than a header":       {header, frame(kindRecords, record.append(nil, 0)...)},
		"0 records and 0 dictiona": {header, frame(kindEnd, 1, 0)},
		"last frame has more than": {header, frame(kindEnd, 0, 0, 0)},
		"last frame ends within":   {header, frame(kindEnd, 0)},
		"more behind its end":      {header, frame(kindEnd, 0, 0), frame(kindEnd, 0, 0)},
	} {
		_, records, err := decode(forge(frames...), Options{})
		if !errors.Is(err, ErrBroken) || !strings.Contains(err.Error(), says) {
			t.Errorf("want an error with %q: %d records, %v", says, len(records), err)
		}
	}
}

// TestClaimsCostNothing reads short files that claim large lengths.
func TestClaimsCostNothing(t *testing.T) {
	data := newPrologue(false)
	data = binary.LittleEndian.AppendUint32(append(data, kindHeader), maxPayload)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if _, _, err := decode(data, Options{}); !errors.Is(err, ErrBroken) {
		t.Fatal(err)
	}
	runtime.ReadMemStats(&after)
	if took := after.TotalAlloc - before.TotalAlloc; took > 1<<20 {
		t.Errorf("reading %d bytes took %d", len(data), took)
	}
	binary.LittleEndian.PutUint32(data[len(data)-4:], maxPayload+sealOverhead+1)
	if _, _, err := decode(data, Options{}); !errors.Is(err, ErrBroken) || !strings.Contains(err.Error(), "claims to have") {
		t.Errorf("a frame that is too long: %v", err)
	}
}

// FuzzRead reads arbitrary bytes, and arbitrary frames.
func FuzzRead(f *testing.F) {
	data := encode(f, pods(f, 3), Options{})
	f.Add(data, byte(kindRecords), frames(data)[2][headSize:])
	f.Add([]byte(magic), byte(kindDictionary), make([]byte, 40))
	f.Add(encode(f, similarPods(f, 6), Options{}), byte(kindDictionary), []byte{0xff, 0xff, 1, 2})
	f.Fuzz(func(t *testing.T, whole []byte, kind byte, payload []byte) {
		for _, opts := range bothOptions {
			readAny(t, whole, opts)
		}
		header := frame(kindHeader, testHeader.append(nil)...)
		dictionary := frame(kindDictionary, make([]byte, 100)...)
		readAny(t, forge(frame(kind, payload...)), Options{})
		readAny(t, forge(header, dictionary, frame(kind, payload...), frame(kindEnd, 1, 1)), Options{})
	})
}

// readAny reads a file; whatever can be read must be the same when it is written and read again.
func readAny(t *testing.T, data []byte, opts Options) {
	_, records, err := decode(data, opts)
	if err != nil {
		if !errors.Is(err, ErrBroken) && !errors.Is(err, ErrKey) && !errors.Is(err, ErrVersion) {
			t.Fatalf("%v wraps no error of the package", err)
		}
		return
	}
	var entries []entry
	for _, record := range records {
		opened, err := record.Object.Open(nil)
		if err != nil {
			return // its checksum is not verified before
		}
		entries = append(entries, entry{record, opened})
	}
	_, again, err := decode(encode(t, entries, Options{}), Options{})
	if err != nil {
		t.Fatal(err)
	}
	mustEqual(t, again, entries)
}

// TestSmallestParts reads files that consist of the smallest frames and records, for which the
// memory is largest compared with the length.
func TestSmallestParts(t *testing.T) {
	const n = 20_000
	header := frame(kindHeader, testHeader.append(nil)...)
	var dictionaries [][]byte
	for range n {
		dictionaries = append(dictionaries, frame(kindDictionary, 0xff, 0xff))
	}
	record := Record{Name: "n", Object: new(fold.Packer).Pack(nil, nil)}.append(nil, 0)
	for name, data := range map[string][]byte{
		"dictionaries": forge(append(append([][]byte{header}, dictionaries...), frame(kindEnd, 0, 0xa0, 0x9c, 1))...),
		"records":      forge(header, frame(kindRecords, bytes.Repeat(record, n)...), frame(kindEnd, 0xa0, 0x9c, 1, 0)),
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		r, err := NewReader(bytes.NewReader(data), Options{})
		if err != nil {
			t.Fatal(err)
		}
		for _, err := range r.Records() {
			if err != nil {
				t.Fatal(name, err)
			}
		}
		runtime.ReadMemStats(&after)
		took := int(after.TotalAlloc - before.TotalAlloc)
		if took > 20*len(data) {
			t.Errorf("%s: %d bytes took %d, %d times as many", name, len(data), took, took/len(data))
		}
	}
}
