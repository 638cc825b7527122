package fold

import "math/rand/v2"

const (
	// sampleTarget is the opened size to collect: two dictionaries, since half of the samples are held out.
	sampleTarget = 2 * MaxDictionary
	minSamples   = 16
	maxSamples   = 512
	// maxSample is the size up to which an encoded object is sampled; a dictionary would hold only
	// a part of a larger one.
	maxSample = 256 << 10
	// heldOut is how many objects of a batch measure the worth of a dictionary.
	heldOut = 16
)

// reservoir holds a random sample of what was packed since it was empty. Samples are kept packed:
// while they are also in the collection, they take no memory.
type reservoir struct {
	kept   []Packed
	opened int // opened size of the kept ones
	seen   int
}

// add may take the object as a sample.
func (r *reservoir) add(rng rand.Source, object Packed) {
	if object.Len() > maxSample || object.Len() < minPackable {
		return
	}
	r.seen++
	if len(r.kept) < minSamples || len(r.kept) < maxSamples && r.opened < sampleTarget {
		r.kept = append(r.kept, object)
		r.opened += object.Len()
		return
	}
	if i := int(rng.Uint64() % uint64(r.seen)); i < len(r.kept) {
		r.opened += object.Len() - r.kept[i].Len()
		r.kept[i] = object
	}
}

// split returns the samples in two halves.
func (r *reservoir) split() (a, b []Packed) {
	for i, sample := range r.kept {
		if i%2 == 0 {
			a = append(a, sample)
		} else {
			b = append(b, sample)
		}
	}
	return a, b
}

// chooseSamples picks objects of a batch to make a dictionary from, in random order, and others, spread over the batch,
// to measure its worth.
func chooseSamples(rng rand.Source, batch [][]byte) (made, held [][]byte) {
	step := max(2, len(batch)/heldOut)
	bytes := 0
	for _, i := range rand.New(rng).Perm(len(batch)) {
		switch {
		case len(batch[i]) > maxSample:
		case i%step == step/2:
			held = append(held, batch[i])
		case bytes < MaxDictionary:
			made = append(made, batch[i])
			bytes += len(batch[i])
		}
	}
	return made, held
}

// size returns the memory of the packed samples.
func (r *reservoir) size() int64 {
	n := int64(0)
	for _, sample := range r.kept {
		n += int64(sample.HeapSize())
	}
	return n
}

// openAll opens packed objects. It skips any that fails to open: reporting that is not up to the packer.
func openAll(objects []Packed) [][]byte {
	var out [][]byte
	for _, object := range objects {
		if data, err := object.Open(nil); err == nil {
			out = append(out, data)
		}
	}
	return out
}

func totalLen(objects [][]byte) int {
	n := 0
	for _, object := range objects {
		n += len(object)
	}
	return n
}
