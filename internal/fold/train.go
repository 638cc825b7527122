package fold

import (
	"bytes"

	"github.com/klauspost/compress/s2"
)

const (
	// trainFrom is the opened size of the collection at which its first dictionary is trained. The
	// dictionary and its tables take up to 64 KiB then, and save about a fifth of the collection's
	// bytes.
	trainFrom = 256 << 10
	// sampleFrom is the size at which sampling for that begins.
	sampleFrom = trainFrom / 4
	// dictionaryShare bounds a dictionary to 1/dictionaryShare of the collection's bytes.
	dictionaryShare = 8
	// maxBackoff bounds how many times the collection's bytes are packed before the next attempt, after failed ones.
	maxBackoff = 8

	// ratioWindow is the number of bytes that the ratio averages over, and the most to sample once it has risen.
	ratioWindow = 4 << 20
	// worse is the factor by which the ratio may exceed what the dictionary promised.
	worse = 1.2
	// better is the fraction that the packed size must shrink to for another dictionary to be used.
	better = 0.98
	// serveBadly is how many times worse than samples an object may pack with the dictionary of one
	// that it resembles before the current one is tried too.
	serveBadly = 1.5

	// freeDictionaries may be in use at any size of the collection. Beyond that, all together may
	// take 1/maxShare of its bytes.
	freeDictionaries = 3
	maxShare         = 16
	// staleBelow is how many bytes of objects a dictionary other than the current one must serve to
	// be worth its memory.
	staleBelow = 256 << 10
)

// training decides when to look for a better current dictionary: when as much was packed as the
// collection holds, because it has grown or its objects have changed; and when objects pack worse
// than they did.
type training struct {
	samples reservoir // of what was packed since the last attempt
	since   int64     // bytes packed since then
	next    int64     // value of since at which the next attempt is due; 0 is as soon as the collection is large enough
	// backoff is how many times the collection's bytes are packed before the next attempt: 1 after
	// a success, doubled after each failure.
	backoff int64
	urgent  bool  // objects pack worse than they did: the next attempt waits only for samples of them
	ratio   ratio // of what was packed with the current dictionary recently
}

// observe records an object packed by p, and trains a dictionary if one is due.
func (t *training) observe(p *Packer, packed Packed) {
	if packed.is(formPatch) {
		return
	}
	t.since += int64(packed.Len())
	if p.forDictionaries() < sampleFrom {
		t.samples = reservoir{}
		return
	}
	t.samples.add(&p.rng, packed)
	if p.current != nil && packed.dict == p.current.dict {
		t.ratio.add(packed)
		t.checkRatio(p)
	}
	if p.forDictionaries() >= trainFrom && t.since >= t.next {
		t.train(p)
	}
}

// checkRatio restarts sampling when objects pack worse than the current dictionary promised.
func (t *training) checkRatio(p *Packer) {
	if t.urgent || p.current.ratio == 0 || t.ratio.value() <= worse*p.current.ratio {
		return
	}
	t.samples = reservoir{}
	t.urgent, t.since, t.next = true, 0, min(ratioWindow, p.forDictionaries())
}

// train makes a dictionary from half of the samples, and measures on the others whether it pays
// off. If not, the ratio that these have now becomes the one to expect.
func (t *training) train(p *Packer) {
	made, held := t.samples.split()
	objects := openAll(held)
	*t = training{backoff: min(max(1, t.backoff)*2, maxBackoff)}
	if next := p.tryDictionary(openAll(made), objects, p.forDictionaries()); next != nil {
		p.setCurrent(next)
		t.backoff = 1
	} else if p.current != nil {
		p.current.ratio = p.current.ratioOf(objects)
	}
	t.next = t.backoff * p.forDictionaries()
	p.dropEncoders()
}

// trainFor returns a dictionary for a batch of objects, or nil if it does not pay off. The first
// one becomes the current one.
func (p *Packer) trainFor(batch [][]byte) *usage {
	made, held := chooseSamples(&p.rng, batch)
	own := p.tryDictionary(made, held, int64(totalLen(batch)))
	if own != nil && p.current == nil {
		p.setCurrent(own)
	}
	return own
}

// tryDictionary makes a dictionary from made. It registers and returns it if using it pays off for
// this many bytes of objects like those held out, else it returns nil.
func (p *Packer) tryDictionary(made, held [][]byte, bytes int64) *usage {
	if len(held) == 0 || bytes < trainFrom || !p.mayGrow(bytes) {
		return nil
	}
	d := concatenate(made, int(min(MaxDictionary, bytes/dictionaryShare)))
	if d == nil {
		return nil
	}
	now, next := p.current.ratioOf(held), &usage{dict: d}
	next.ratio = next.ratioOf(held)
	saved := (now - next.ratio) * float64(bytes)
	if saved <= float64(d.Size()+encoderBytes) || next.ratio > better*now {
		return nil
	}
	p.count.Trainings++
	return p.add(next)
}

// mayGrow reports whether the collection, grown by this many bytes, is large enough for another dictionary.
func (p *Packer) mayGrow(bytes int64) bool {
	n := int64(len(p.usages))
	return n < freeDictionaries || (n+1)*MaxDictionary <= (p.forDictionaries()+bytes)/maxShare
}

// ratioOf returns the ratio of packed to opened bytes that the objects have with the dictionary.
func (u *usage) ratioOf(objects [][]byte) float64 {
	packed := 0
	for _, object := range objects {
		buf := getBuffer(s2.MaxEncodedLen(len(object)))
		packed += headerSize + min(len(u.encode(*buf, object)), len(object))
		putBuffer(buf)
	}
	return float64(packed) / float64(max(1, totalLen(objects)))
}

// concatenate makes a dictionary of at most size bytes by concatenating objects. No object gets
// more than a quarter of it. It returns nil if there is not enough to make one.
func concatenate(objects [][]byte, size int) *Dictionary {
	var samples []byte
	start := 0
	for _, object := range objects {
		object = object[:min(len(object), size/4)]
		if len(samples)+len(object) > size || bytes.Contains(samples, object) {
			continue
		}
		start = len(samples)
		samples = append(samples, object...)
	}
	return newDictionary(samples, start)
}

// ratio is a ratio of packed to opened bytes in which older objects count less and less.
type ratio struct{ packed, opened int64 }

func (r *ratio) add(object Packed) {
	if r.opened >= ratioWindow {
		r.packed, r.opened = r.packed/2, r.opened/2
	}
	r.packed += int64(object.Size())
	r.opened += int64(object.Len())
}

// value is 0 until it is based on half a window.
func (r *ratio) value() float64 {
	if r.opened < ratioWindow/2 {
		return 0
	}
	return float64(r.packed) / float64(r.opened)
}
