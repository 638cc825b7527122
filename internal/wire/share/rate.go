package share

// Mode says how a decoder treats the values of a field.
type Mode uint8

const (
	// Direct looks every value up and stores it when it is first seen.
	Direct Mode = iota
	// Second looks every value up and stores it when it is seen for the second time.
	Second
	// Sampling looks up only a sample, to notice when values begin to repeat, and stores the ones that repeat.
	Sampling
)

// Policy sets the hit rates that the modes require, and how many lookups make up one measurement. A
// lookup that finds nothing costs time and a table entry.
type Policy struct {
	// Direct and Second are the required hit rates in eighths. A field below both is only sampled.
	// Never rules a mode out.
	Direct, Second uint32
	// First is the number of lookups before the first evaluation, Window between later ones,
	// Sampled the same in mode Sampling.
	First, Window, Sampled uint32
	// Found says that only values found in the table count as repeats, not those that were seen before and dropped.
	Found bool
}

// Never is a rate that no field reaches.
const Never = 9

// Rate counts how often the values of one field repeat, and picks the mode accordingly. The zero
// value starts in Direct.
//
// A sample is one of 64 hash classes, so equal values are all in it or all outside: the rate within
// the sample is that of the whole, and sharing resumes when it rises. The sampled class changes
// from time to time; otherwise a field with few values might never be sampled.
type Rate struct {
	Mode         Mode
	evaluated    bool
	class        uint8  // the class that is the sample
	tried, found uint32 // lookups since the last evaluation, and how many of them were repeats
	passed       uint32 // values seen since this class became the sample
	period       uint32 // number of values after which the class changes
}

const (
	// Classes is the number of hash classes; a sample is one of them.
	Classes     = 64
	firstPeriod = 1 << 10
	lastPeriod  = 1 << 15
)

// Samples reports whether a value of the given class is in the sample; equal values have equal
// classes. Call it once per value in mode Sampling.
func (r *Rate) Samples(class uint64) bool {
	if r.passed++; r.passed > r.period {
		r.class, r.passed, r.period = (r.class+1)%Classes, 0, min(2*r.period, lastPeriod)
	}
	return class%Classes == uint64(r.class)
}

// Note records the outcome of a lookup: whether the value had been seen before.
func (r *Rate) Note(p *Policy, repeated bool) {
	r.tried++
	if repeated {
		r.found++
	}
	window := p.Window
	switch {
	case r.Mode == Sampling:
		window = p.Sampled
	case !r.evaluated:
		window = p.First
	}
	if r.tried >= window {
		r.chooseMode(p)
	}
}

func (r *Rate) chooseMode(p *Policy) {
	before := r.Mode
	switch {
	case r.found*8 >= r.tried*p.Direct:
		r.Mode = Direct
	case r.found*8 >= r.tried*p.Second:
		r.Mode = Second
	default:
		r.Mode = Sampling
	}
	if r.Mode == Sampling && before != Sampling {
		r.passed, r.period = 0, firstPeriod
	}
	r.evaluated, r.tried, r.found = true, 0, 0
}
