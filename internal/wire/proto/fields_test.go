package proto

import (
	"math/rand/v2"
	"slices"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
	corev1 "k8s.io/api/core/v1"

	"github.com/tidings/tidings/internal/testseed"
	"github.com/tidings/tidings/internal/wire"
)

// splitFields splits b into fields with their tags, if it is a message.
func splitFields(b []byte) (fields [][]byte, ok bool) {
	for len(b) > 0 {
		_, _, n := protowire.ConsumeField(b)
		if n < 0 {
			return nil, false
		}
		fields, b = append(fields, b[:n:n]), b[n:]
	}
	return fields, true
}

// varyFields changes a field of the message b, or of a nested message, and adjusts the lengths around it.
func varyFields(rng *rand.Rand, b []byte) []byte {
	fields, ok := splitFields(b)
	if !ok || len(fields) == 0 {
		return slices.Concat(b, []byte{byte(rng.UintN(128)), 0})
	}
	k := rng.IntN(len(fields))
	num, wire, n := protowire.ConsumeTag(fields[k])
	value := fields[k][n:]
	if wire == protowire.BytesType {
		content, _ := protowire.ConsumeBytes(value)
		if inner, ok := splitFields(content); ok && len(inner) > 0 && rng.IntN(5) > 0 {
			fields[k] = protowire.AppendBytes(protowire.AppendTag(nil, num, wire), varyFields(rng, content))
			return slices.Concat(fields...)
		}
	}
	switch rng.IntN(9) {
	case 0: // duplicated
		fields = slices.Insert(fields, rng.IntN(len(fields)), fields[k])
	case 1:
		fields = slices.Delete(fields, k, k+1)
	case 2: // moved
		i := rng.IntN(len(fields))
		fields[i], fields[k] = fields[k], fields[i]
	case 3: // an overlong tag
		fields[k] = slices.Concat(longer(fields[k][:n]), value)
	case 4: // an overlong length or number
		_, n := protowire.ConsumeVarint(value)
		if n > 0 && (wire == protowire.BytesType || wire == protowire.VarintType) {
			fields[k] = slices.Concat(protowire.AppendTag(nil, num, wire), longer(value[:n]), value[n:])
		}
	case 5: // zero, or empty
		fields[k] = append(protowire.AppendTag(nil, num, wire&protowire.BytesType), 0)
	case 6: // another wire type
		fields[k] = slices.Concat(protowire.AppendTag(nil, num, protowire.Type(rng.IntN(8))), value)
	case 7: // another field
		fields[k] = slices.Concat(protowire.AppendTag(nil, protowire.Number(1+rng.IntN(20)), wire), value)
	case 8: // an additional one that is unknown or invalid
		fields = slices.Insert(fields, k, pick(rng, oddFields))
	}
	return slices.Concat(fields...)
}

var oddFields = [][]byte{
	{0x02, 0x00}, {0x00, 0x00}, {0xc0, 0x3e, 0x01}, {0xc2, 0x3e, 0x01, 'x'}, {0xc3, 0x3e, 0x08, 0x01, 0xc4, 0x3e}, {0x0c},
	{0x82, 0x80, 0x80, 0x80, 0x40, 0x00},                                      // number -2^31
	{0x8a, 0x80, 0x80, 0x80, 0x80, 0x01, 0x00},                                // number 2^32+1, which is taken for 1
	{0x00 | 1<<3, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01}, // -1
}

func pick[E any](rng *rand.Rand, from []E) E { return from[rng.IntN(len(from))] }

// longer encodes a varint in one byte more.
func longer(varint []byte) []byte {
	out := slices.Clone(varint)
	out[len(out)-1] |= 0x80
	return append(out, 0)
}

func TestVaryFields(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	data := messageField(1, messageField(1, []byte("\x0a\x01a")), []byte{0x10, 0x80, 0x01})
	seen := map[string]bool{}
	for range 1000 {
		seen[string(varyFields(rng, data))] = true
	}
	if len(seen) < 20 {
		t.Errorf("%d variations", len(seen))
	}
}

// TestPeekFindsWhatDecodeFinds in valid, malformed and oddly encoded objects, as far as it reads.
func TestPeekFindsWhatDecodeFinds(t *testing.T) {
	rng := testseed.Rand(t)
	d, err := New[*corev1.Pod](wire.Options{NoSharing: true})
	if err != nil {
		t.Fatal(err)
	}
	pods, found := encodedPods(t, 30, rng.Uint64()), 0
	for range 3000 {
		data := pick(rng, pods)
		sound := rng.IntN(4) == 0
		for !sound && (rng.IntN(2) == 0) {
			data = varyFields(rng, data)
		}
		meta, ok := d.Peek(data)
		pod, err := d.Decode(data, nil)
		if !ok {
			if sound {
				t.Fatalf("nothing is found in %q", data)
			}
			continue
		}
		if raw, _ := only(data, 1); err != nil || !isSeen(raw) {
			continue
		}
		found++
		if pod.Name != string(meta.Name) || pod.Namespace != string(meta.Namespace) || string(pod.UID) != string(meta.UID) || pod.ResourceVersion != string(meta.ResourceVersion) || pod.Name == "" {
			t.Fatalf("in %q it finds %q", data, meta)
		}
	}
	if found < 1000 {
		t.Errorf("only %d objects had an identity", found)
	}
}

// isSeen reports whether Peek reads everything relevant: after a resource version and a field of a
// larger number it stops.
func isSeen(metadata []byte) bool {
	fields, ok := splitFields(metadata)
	version, end := false, false
	for _, f := range fields {
		num, _, _ := protowire.ConsumeTag(f)
		if end && num <= metaResourceVersion {
			return false
		}
		version = version || num == metaResourceVersion
		end = end || version && num > metaResourceVersion
	}
	return ok
}
