package fold

import (
	"slices"
	"testing"
)

// patchesOf returns objects, which all resemble a template, as patches of it.
func patchesOf(t *testing.T, template *Dictionary, objects [][]byte) (patches []Packed) {
	t.Helper()
	for _, data := range objects {
		packed, ok := template.Patch(podDiffer(t), data)
		if !ok {
			t.Fatal("two pods of one owner have little in common")
		}
		mustOpen(t, packed, data)
		patches = append(patches, packed)
	}
	return patches
}

// TestAdoptPatches adds patches of a registered template, and patches that are enough for their template to pay off.
func TestAdoptPatches(t *testing.T) {
	pods := ofOwner(t, 40)
	p := &Packer{}
	p.SetDiffer(podDiffer(t))
	known, other := NewTemplate(pods[0]), NewTemplate(pods[20])
	few := patchesOf(t, known, pods[:minPatches-1])
	enough := patchesOf(t, other, pods[20:20+minPatches])
	plain := p.Pack(pods[0], nil)
	batch := append(append([]Packed{{}, plain}, few...), enough...)
	want := slices.Concat([]bool{false, false}, make([]bool, len(few)), []bool{true, true, true, true})
	if got := p.AdoptPatches(batch); !slices.Equal(got, want) {
		t.Fatalf("adopted are %v, want %v", got, want)
	}
	if st := p.Stats(); st.Objects != 1+minPatches || st.Dictionaries != 1 {
		t.Errorf("%+v", st)
	}
	if got := p.AdoptPatches(few); slices.Contains(got, true) {
		t.Errorf("adopted are %v, too few for a template", got)
	}
	one := patchesOf(t, other, pods[30:31])
	if got := p.AdoptPatches(one); !got[0] {
		t.Error("one of a known template is not adopted")
	}
	p.Release(one[0])
	for _, packed := range enough {
		p.Release(packed)
	}
	if got := p.AdoptPatches(one); got[0] {
		t.Error("one of a template that is gone is adopted")
	}
	if got := p.AdoptPatches(nil); len(got) != 0 {
		t.Errorf("of none %v are adopted", got)
	}
	p.Release(plain)
	if st := p.Stats(); st.Objects != 0 || st.Dictionaries != 0 || st.HeapBytes != 0 {
		t.Errorf("%+v of nothing", st)
	}
}

// TestTemplatesThatDoNotPay: patches as long as the objects would be otherwise do not justify a template.
func TestTemplatesThatDoNotPay(t *testing.T) {
	pods := ofOwner(t, 40)
	template := NewTemplate(pods[0])
	long := func(dst, base, data []byte, most int) ([]byte, bool) { return append(dst, data[:most]...), true }
	p := &Packer{}
	p.SetDiffer(long)
	var patches []Packed
	for _, data := range pods {
		packed, ok := template.Patch(long, data)
		if !ok {
			t.Fatal("no patch")
		}
		patches = append(patches, packed)
	}
	if got := p.AdoptPatches(patches); slices.Contains(got, true) || p.Stats().Objects != 0 {
		t.Errorf("adopted are %v", got)
	}
}

// TestNoPatch: sample dictionaries, and objects that are too small or too large, make no patches.
func TestNoPatch(t *testing.T) {
	any := func(dst, base, data []byte, most int) ([]byte, bool) { return dst, true }
	dict := newDictionary(make([]byte, minDictionary), 0)
	fits, small, large := make([]byte, minPackable), make([]byte, minPackable-1), make([]byte, maxTemplate+1)
	if _, ok := dict.Patch(any, fits); ok {
		t.Error("a dictionary makes a patch")
	}
	for _, pair := range [][2][]byte{{small, fits}, {fits, small}, {large, fits}, {fits, large}} {
		if _, ok := NewTemplate(pair[0]).Patch(any, pair[1]); ok {
			t.Errorf("%d bytes are a patch of %d", len(pair[1]), len(pair[0]))
		}
	}
	if _, ok := NewTemplate(fits).Patch(any, fits); !ok {
		t.Error("there is no patch")
	}
}
