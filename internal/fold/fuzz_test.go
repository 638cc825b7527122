package fold

import (
	"bytes"
	"errors"
	"testing"

	"github.com/tidings/tidings/internal/wire/patch"
)

// FuzzOpen opens arbitrary bytes with an arbitrary dictionary. Whatever opens must pack and open again.
func FuzzOpen(f *testing.F) {
	objects := corpora[0].make(f, 200, 1)
	_, packed := trained(f, objects)
	f.Add(packed[3].Dictionary().AppendTo(nil), packed[3].Bytes())
	_, patches := patched(f, ofOwner(f, 10))
	f.Add(patches[3].Dictionary().AppendTo(nil), patches[3].Bytes())
	f.Add([]byte(nil), new(Packer).Pack(objects[0], nil).Bytes())
	f.Add([]byte(nil), new(Packer).Pack([]byte("short"), nil).Bytes())
	f.Fuzz(func(t *testing.T, dictionary, data []byte) {
		dict, err := ParseDictionary(dictionary)
		if err != nil {
			dict = nil
		}
		object, err := FromBytes(dict, data)
		if err != nil {
			mustBeCorrupt(t, err)
			return
		}
		// The checksum stops nearly everything; without it, the decoder itself is tested.
		if object.is(formPatch) {
			mustNotLie(t, dict, object)
		} else {
			_ = object.decode(make([]byte, object.Len()))
		}
		opened, err := object.Open(nil)
		if err != nil {
			mustBeCorrupt(t, err)
			return
		}
		mustOpen(t, new(Packer).Pack(opened, nil), opened)
	})
}

// mustNotLie opens an arbitrary patch with a valid checksum: if it opens, then to the patch's result, with the length that Len returns.
func mustNotLie(t *testing.T, template *Dictionary, object Packed) {
	t.Helper()
	_, change, _, _ := sealPatch(template, object.Bytes()[headerSize:]).Patch()
	want, wantErr := patch.Apply(nil, template.samples, change, object.Len())
	forged := sealPatch(template, append(openedTo(object.Len(), want), change...))
	opened, err := forged.Open(nil)
	if err != nil {
		mustBeCorrupt(t, err)
	}
	if fits := wantErr == nil && len(want) == forged.Len(); fits != (err == nil) || fits && !bytes.Equal(opened, want) {
		t.Fatalf("it opens to %x, %v\nwant %x, %v, of %d bytes", opened, err, want, wantErr, forged.Len())
	}
}

func mustBeCorrupt(t *testing.T, err error) {
	t.Helper()
	if !errors.Is(err, ErrCorrupt) {
		t.Fatalf("%v is no ErrCorrupt", err)
	}
}

// FuzzPack packs arbitrary bytes with an arbitrary dictionary.
func FuzzPack(f *testing.F) {
	objects := corpora[0].make(f, 50, 1)
	f.Add(bytes.Join(objects[:10], nil), uint16(0), objects[20])
	f.Add([]byte("0123456789abcdef0123456789abcdef"), uint16(9), bytes.Repeat([]byte("0123456789abcdef"), 5000))
	f.Fuzz(func(t *testing.T, samples []byte, start uint16, data []byte) {
		var u *usage
		if d := newDictionary(samples, int(start)); d != nil {
			u = &usage{dict: d}
		}
		mustOpen(t, u.pack(data), data)
	})
}
