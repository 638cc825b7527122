package fold

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// packAll packs a collection as a store does: in batches of neighbors.
func packAll(p *Packer, objects [][]byte) []Packed {
	var out []Packed
	for batch := range slices.Chunk(objects, 500) {
		out = append(out, p.PackAll(batch)...)
	}
	return out
}

// BenchmarkPack packs objects of each corpus into a collection of 10,000, and reports the size of one.
func BenchmarkPack(b *testing.B) {
	for _, c := range corpora {
		b.Run(c.name, func(b *testing.B) {
			objects := c.make(b, 10_000, 1)
			var p Packer
			packed := packAll(&p, objects)
			s := p.Stats()
			i := 0
			for b.Loop() {
				n := (i * 7919) % len(objects)
				p.Release(packed[n])
				packed[n] = p.Pack(objects[n], packed[n].Dictionary())
				i++
			}
			count := float64(len(objects))
			b.ReportMetric(float64(s.OpenedBytes)/count, "B/opened")
			b.ReportMetric(float64(s.PackedBytes)/count, "B/packed")
			b.ReportMetric(float64(s.DictionaryBytes+s.EncoderBytes)/count, "B/dict")
			b.ReportMetric(float64(s.Trainings), "trainings")
		})
	}
}

// BenchmarkPackAll packs lists of 10,000 in batches, starting from nothing and including training,
// and reports the size per object.
func BenchmarkPackAll(b *testing.B) {
	for _, c := range corpora {
		b.Run(c.name, func(b *testing.B) {
			objects := c.make(b, 10_000, 1)
			for b.Loop() {
				var p Packer
				packAll(&p, objects)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(objects)), "ns/object")
		})
	}
}

// BenchmarkOpen opens packed objects of each corpus into a pooled buffer.
func BenchmarkOpen(b *testing.B) {
	for _, c := range corpora {
		b.Run(c.name, func(b *testing.B) {
			var p Packer
			packed := packAll(&p, c.make(b, 10_000, 1))
			i := 0
			b.ReportAllocs()
			for b.Loop() {
				if err := packed[(i*7919)%len(packed)].View(func([]byte) error { return nil }); err != nil {
					b.Fatal(err)
				}
				i++
			}
		})
	}
}

// BenchmarkUnmarshal is the reference for opening: the generated decoder of pods.
func BenchmarkUnmarshal(b *testing.B) {
	objects := corpora[0].make(b, 10_000, 1)
	i := 0
	for b.Loop() {
		if err := new(corev1.Pod).Unmarshal(objects[(i*7919)%len(objects)]); err != nil {
			b.Fatal(err)
		}
		i++
	}
}
