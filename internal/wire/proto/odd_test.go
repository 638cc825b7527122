package proto

import (
	"bufio"
	"bytes"
	"errors"
	"reflect"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/tidings/tidings/internal/wire"
)

// message is a field that holds a message of these parts.
func messageField(number int, parts ...[]byte) []byte {
	content := slices.Concat(parts...)
	return append(appendVarint(appendVarint(nil, uint64(number)<<3|2), uint64(len(content))), content...)
}

func appendVarint(dst []byte, v uint64) []byte {
	for ; v >= 0x80; v >>= 7 {
		dst = append(dst, byte(v)|0x80)
	}
	return append(dst, byte(v))
}

// Numbers of fields.
const (
	podMetadata, podSpec                                               = 1, 2
	fieldOfName, metaCreated, metaLabels, metaOwners, metaManaged      = 1, 8, 11, 13, 17
	specContainers, specSecurity, containerName, containerResources    = 2, 14, 1, 8
	resourcesLimits, securityGroups, securityFSGroup, mapKey, mapValue = 1, 4, 5, 1, 2
)

// TestPackedNumbers packs whole numbers, none, and truncated ones, with and without more data after them.
func TestPackedNumbers(t *testing.T) {
	typ := reflect.TypeFor[*corev1.Pod]()
	for _, numbers := range [][]byte{
		{}, {1}, {1, 2, 3}, {0x80, 0x01}, {0x80}, {1, 0x80}, {1, 2, 0x80}, {0x80, 0x80}, {0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x01},
		bytes.Repeat([]byte{0x80}, 11), {1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01},
	} {
		packed := messageField(securityGroups, numbers)
		single := append(appendVarint(nil, securityGroups<<3), 7)
		behind := append(appendVarint(nil, securityFSGroup<<3), 9)
		for _, parts := range [][][]byte{
			{packed}, {packed, behind}, {single, packed}, {packed, single}, {packed, packed}, {packed, single, behind, packed},
		} {
			data := messageField(podSpec, messageField(specSecurity, parts...))
			for _, d := range fuzzDecoders(t, typ) {
				for range 2 {
					if err := sameVerdict(d, typ, data); err != nil {
						t.Errorf("%x: %v", data, err)
					}
				}
			}
		}
	}
}

// TestOddMaps decodes maps in all encodings of a few entries, each after each other one, so that a
// different map might wrongly be reused.
func TestOddMaps(t *testing.T) {
	text := func(number int, s string) []byte { return messageField(number, []byte(s)) }
	entries := [][]byte{
		messageField(metaLabels, text(mapKey, "a"), text(mapValue, "1")),
		messageField(metaLabels, text(mapKey, "b"), text(mapValue, "1")),
		messageField(metaLabels, text(mapKey, "a"), text(mapValue, "2")),
		messageField(metaLabels, text(mapValue, "1"), text(mapKey, "a")),
		messageField(metaLabels, text(mapKey, "a"), text(mapValue, "1"), text(mapValue, "2")),
		messageField(metaLabels, text(mapKey, "a"), text(mapKey, "b"), text(mapValue, "1")),
		messageField(metaLabels, text(mapKey, "a")),
		messageField(metaLabels, text(mapValue, "1")),
		messageField(metaLabels),
		messageField(metaLabels, text(mapKey, "a"), text(mapValue, "1"), text(3, "more")),
		append([]byte{metaLabels<<3 | 2 | 0x80, 0}, messageField(metaLabels, text(mapKey, "a"), text(mapValue, "1"))[1:]...),
	}
	maps := [][]byte{nil}
	for _, first := range entries {
		maps = append(maps, first)
		for _, second := range entries {
			maps = append(maps, slices.Concat(first, second))
		}
	}
	for _, trim := range [][]string{nil, {"metadata.labels[b]"}} {
		d, err := New[*corev1.Pod](wire.Options{Trim: trim})
		if err != nil {
			t.Fatal(err)
		}
		for i, before := range maps {
			old, err := d.Decode(messageField(podMetadata, text(metaUID, "u"), before), nil)
			if err != nil {
				t.Fatal(err)
			}
			for j, after := range maps {
				data := messageField(podMetadata, text(metaUID, "u"), after)
				got, err := d.Decode(data, old)
				var want corev1.Pod
				if wantErr := want.Unmarshal(data); err != nil || wantErr != nil {
					t.Fatal(err, wantErr)
				}
				if delete(want.Labels, "b"); trim == nil {
					want.Unmarshal(data)
				} else if len(want.Labels) == 0 {
					want.Labels = nil
				}
				if !reflect.DeepEqual(got, &want) {
					t.Fatalf("trim %v, %d after %d: %v, want %v", trim, j, i, got.Labels, want.Labels)
				}
			}
		}
	}
}

// unknownFields are fields that no type has, of each wire type, some of them truncated.
var unknownFields = map[string][]byte{
	"none": {}, "varint": {0xc0, 0x3e, 0x96, 0x01}, "fixed64": {0xc1, 0x3e, 1, 2, 3, 4, 5, 6, 7, 8}, "bytes": {0xc2, 0x3e, 2, 'x', 'y'},
	"empty bytes": {0xc2, 0x3e, 0}, "group": {0xc3, 0x3e, 0x08, 1, 0xc4, 0x3e}, "fixed32": {0xc5, 0x3e, 1, 2, 3, 4}, "two": {0xc0, 0x3e, 1, 0xc5, 0x3e, 1, 2, 3, 4},
	"half a varint": {0xc0, 0x3e, 0x96}, "half a fixed64": {0xc1, 0x3e, 1, 2, 3, 4, 5, 6, 7}, "half the bytes": {0xc2, 0x3e, 2, 'x'},
	"an open group": {0xc3, 0x3e, 0x08, 1}, "half a fixed32": {0xc5, 0x3e, 1, 2, 3}, "half a tag": {0xc0}, "a wire type that is none": {0xc6, 0x3e},
	"an end of no group": {0xc4, 0x3e}, "number 0": {0x02, 0x00}, "a negative number": {0x82, 0x80, 0x80, 0x80, 0x40, 0x00},
	"a negative length": {0xc2, 0x3e, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01}, "a length of eleven bytes": slices.Concat([]byte{0xc2, 0x3e}, bytes.Repeat([]byte{0x80}, 10), []byte{1}),
	"a huge length": {0xc2, 0x3e, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f}, "groups in a group": {0xc3, 0x3e, 0x0b, 0x0c, 0x13, 0x0a, 1, 'x', 0x14, 0xc4, 0x3e},
	"another wire type": {0x10, 0xc0, 0x3e, 0x01}, "a number beyond 32 bits": {0x8a, 0x80, 0x80, 0x80, 0x80, 0x01, 0x00},
}

// oddPod returns a pod with additional content in each kind of its messages.
func oddPod(place string, more []byte) []byte {
	in := func(name string) []byte {
		if name == place {
			return more
		}
		return nil
	}
	text := func(number int, s string) []byte { return messageField(number, []byte(s)) }
	return slices.Concat(
		messageField(podMetadata,
			text(fieldOfName, "a"),
			messageField(metaCreated, []byte{0x08, 0x96, 0x01}, in("a time")),
			messageField(metaLabels, text(mapKey, "k"), text(mapValue, "v"), in("a map entry")),
			messageField(metaLabels, in("the front of a map entry"), text(mapKey, "k2"), text(mapValue, "v2")),
			messageField(metaOwners, text(3, "owner"), in("an owner")),
			messageField(metaManaged, text(1, "manager"), in("what is trimmed")),
			in("metadata"),
		),
		messageField(podSpec,
			messageField(specContainers,
				text(containerName, "c"),
				messageField(containerResources, messageField(resourcesLimits, text(mapKey, "cpu"), messageField(mapValue, text(1, "100m"), in("a quantity")), in("a map entry of quantities"))),
				in("a container"),
			),
			messageField(specSecurity, in("a security context")),
			in("spec"),
		),
		in("the pod"),
	)
}

// TestUnknownFields puts unknown fields into each kind of message, valid and malformed ones.
func TestUnknownFields(t *testing.T) {
	typ := reflect.TypeFor[*corev1.Pod]()
	trimmed, err := New[*corev1.Pod](wire.Options{Trim: []string{"metadata.managedFields", "spec.securityContext"}})
	if err != nil {
		t.Fatal(err)
	}
	decoders := fuzzDecoders(t, typ)
	for _, place := range []string{
		"a time", "a map entry", "the front of a map entry", "an owner", "what is trimmed", "metadata", "a quantity", "a map entry of quantities", "a container",
		"a security context", "spec", "the pod",
	} {
		for name, more := range unknownFields {
			data := oddPod(place, more)
			for _, d := range decoders {
				if err := sameVerdict(d, typ, data); err != nil {
					t.Errorf("%s in %s: %v", name, place, err)
				}
			}
			var want corev1.Pod
			wantErr := want.Unmarshal(data)
			got, err := trimmed.Decode(data, nil)
			if skipped := place == "what is trimmed" || place == "a security context"; err != nil && wantErr == nil || err == nil && wantErr != nil && !skipped {
				t.Errorf("%s in %s, trimmed: %v, want %v", name, place, err, wantErr)
			}
			if err == nil && wantErr == nil {
				want.ManagedFields, want.Spec.SecurityContext = nil, nil
				if !reflect.DeepEqual(got, &want) {
					t.Errorf("%s in %s, trimmed:\n%+v\nwant\n%+v", name, place, got, &want)
				}
			}
		}
	}
}

// TestTrimOfOnePlace trims fields of a type that occurs in two places, in one of them.
func TestTrimOfOnePlace(t *testing.T) {
	p := &corev1.Pod{}
	for _, list := range []*[]corev1.Container{&p.Spec.InitContainers, &p.Spec.Containers} {
		*list = []corev1.Container{{Name: "c", Image: "i", Command: []string{"run"}}}
	}
	data, err := p.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	for _, paths := range [][]string{{"spec.containers.image"}, {"spec.initContainers.image"}, {"spec.containers.image", "spec.initContainers.command"}, {"spec.containers", "spec.initContainers.image"}} {
		d, err := New[*corev1.Pod](wire.Options{Trim: paths})
		if err != nil {
			t.Fatal(err)
		}
		want := p.DeepCopy()
		for _, path := range paths {
			switch path {
			case "spec.containers":
				want.Spec.Containers = nil
			case "spec.containers.image":
				want.Spec.Containers[0].Image = ""
			case "spec.initContainers.image":
				want.Spec.InitContainers[0].Image = ""
			case "spec.initContainers.command":
				want.Spec.InitContainers[0].Command = nil
			}
		}
		for range 3 { // shared values are trimmed alike
			got, err := d.Decode(data, nil)
			if err != nil || !reflect.DeepEqual(got, want) {
				t.Errorf("%v: %v, %+v", paths, err, got)
			}
		}
	}
}

// TestListsHaveNoRoom: appending to a list of a decoded object reallocates it, so that no other memory is written to.
func TestListsHaveNoRoom(t *testing.T) {
	for n := range 20 {
		p := &corev1.Pod{}
		for range n {
			p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: "c"})
			p.Finalizers = append(p.Finalizers, "f")
			p.OwnerReferences = append(p.OwnerReferences, metav1.OwnerReference{Name: "o"})
		}
		data, err := p.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		for _, opts := range []wire.Options{{}, {NoSharing: true}, keeping} {
			d, err := New[*corev1.Pod](opts)
			if err != nil {
				t.Fatal(err)
			}
			got, err := d.Decode(data, nil)
			if err != nil {
				t.Fatal(err)
			}
			if c, f, o := got.Spec.Containers, got.Finalizers, got.OwnerReferences; len(c) != n || cap(c) != n || len(f) != n || cap(f) != n || len(o) != n || cap(o) != n {
				t.Errorf("%d elements: room for %d, %d and %d", n, cap(c), cap(f), cap(o))
			}
		}
	}
}

// TestBrokenAsInterface decodes malformed data, and data with a previous object of another type.
func TestBrokenAsInterface(t *testing.T) {
	d, err := NewAsInterface[any](reflect.TypeFor[*corev1.Pod](), wire.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if o, err := d.Decode([]byte{0xff}, nil); err == nil || o != nil {
		t.Errorf("%v, %v", o, err)
	}
	if _, err := NewAsInterface[any](reflect.TypeFor[*string](), wire.Options{}); !errors.Is(err, ErrNotSupported) {
		t.Errorf("a type without protobuf: %v", err)
	}
	if _, err := NewAsInterface[any](reflect.TypeFor[*corev1.Pod](), wire.Options{Trim: []string{"x"}}); err == nil {
		t.Error("a field that does not exist is trimmed")
	}
	o, err := d.Decode(oddPod("", nil), &corev1.Node{})
	p, ok := o.(*corev1.Pod)
	if !ok || err != nil || p.Name != "a" {
		t.Fatalf("%v, %v", o, err)
	}
	withUID := oddPod("metadata", messageField(metaUID, []byte("u")))
	if o, err = d.Decode(withUID, nil); err != nil {
		t.Fatal(err)
	}
	next, err := d.Decode(withUID, o)
	if a, b := o.(*corev1.Pod).Labels, next.(*corev1.Pod).Labels; err != nil || reflect.ValueOf(a).Pointer() != reflect.ValueOf(b).Pointer() {
		t.Errorf("the labels of the version before are not taken over: %v", err)
	}
}

// TestStatsOfFields sums up the lookups of the fields.
func TestStatsOfFields(t *testing.T) {
	d, err := New[*corev1.Pod](wire.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, data := range encodedPods(t, 300, 12) {
		if _, err := d.Decode(data, nil); err != nil {
			t.Fatal(err)
		}
	}
	s := d.Stats()
	var lookups, hits, shared uint64
	for path, f := range s.Fields {
		if f.Hits > f.Lookups || f.SharedBytes > f.Bytes || f.Lookups == 0 {
			t.Errorf("%s: %+v", path, f)
		}
		lookups, hits, shared = lookups+f.Lookups, hits+f.Hits, shared+f.SharedBytes
	}
	if lookups != s.Lookups || hits != s.Hits || shared != s.SharedBytes || shared == 0 {
		t.Errorf("the fields have %d lookups, %d hits and %d shared bytes, all of it %d, %d and %d", lookups, hits, shared, s.Lookups, s.Hits, s.SharedBytes)
	}
}

// TestUnknownFieldsOfLists puts unknown fields into a list and into its envelope.
func TestUnknownFieldsOfLists(t *testing.T) {
	d, err := New[*corev1.Pod](wire.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for name, more := range unknownFields {
		for _, place := range []string{"before the items", "between the items", "behind the items", "in the metadata", "before the list", "behind the list"} {
			in := func(name string) []byte {
				if name == place {
					return more
				}
				return nil
			}
			content := slices.Concat(in("before the items"), messageField(1, messageField(2, []byte("7")), in("in the metadata")), messageField(2, oddPod("", nil)),
				in("between the items"), messageField(2, oddPod("", nil)), in("behind the items"))
			data := slices.Concat([]byte("k8s\x00"), messageField(1, messageField(1, []byte("v1")), messageField(2, []byte("PodList"))), in("before the list"),
				messageField(2, content), in("behind the list"))
			var list corev1.PodList
			var envelope runtime.Unknown
			wantErr := envelope.Unmarshal(data[4:])
			if wantErr == nil {
				wantErr = list.Unmarshal(envelope.Raw)
			}
			r := NewListReader(bufio.NewReader(bytes.NewReader(data)), 0)
			pods, err := readList(r, d)
			if (err == nil) != (wantErr == nil) || err == nil && len(pods.Items) != len(list.Items) {
				t.Errorf("%s %s: %v, want %v", name, place, err, wantErr)
			}
		}
	}
}

// TestQuantitiesOfVersions reuses a quantity only if it has the same value.
func TestQuantitiesOfVersions(t *testing.T) {
	with := func(quantity ...byte) []byte {
		return messageField(podSpec, messageField(specContainers, messageField(containerResources,
			messageField(resourcesLimits, messageField(mapKey, []byte("cpu")), messageField(mapValue, quantity)))))
	}
	text := func(s string) []byte { return messageField(1, []byte(s)) }
	versions := [][]byte{text("100m"), text("0.1"), text("1"), {}, text("1000m"), text("0"), text("100m"), append(text("100m"), 0x10, 1), append([]byte{0x10, 1}, text("2")...), text(""),
		append(text("100m"), text("2")...), append(text("100m"), 0x80)}
	for _, opts := range []wire.Options{{}, {NoSharing: true}, keeping} {
		d, err := New[*corev1.Pod](opts)
		if err != nil {
			t.Fatal(err)
		}
		for _, before := range versions {
			old, err := d.Decode(with(before...), nil)
			if err != nil {
				continue
			}
			for _, after := range versions {
				var want corev1.Pod
				wantErr := want.Unmarshal(with(after...))
				got, err := d.Decode(with(after...), old)
				if (err == nil) != (wantErr == nil) || err == nil && got.Spec.Containers[0].Resources.Limits.Cpu().String() != want.Spec.Containers[0].Resources.Limits.Cpu().String() {
					t.Errorf("%x after %x: %v, want %v, %v", after, before, got, &want, err)
				}
			}
		}
	}
}
