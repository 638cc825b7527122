package share

// Mode says what is done with the values of a field.
type Mode uint8

const (
	// Direct looks a value up and stores it at first sight.
	Direct Mode = iota
	// Second looks a value up and stores it when it is seen for the second time.
	Second
	// Sampling looks up a sample, so that it shows when values begin to repeat, and stores what repeats.
	Sampling
)

// Policy says what part of the lookups must find something for a mode, and how many lookups are judged together. What is looked
// up in vain costs time and an entry of the table.
type Policy struct {
	// Direct and Second are in eighths. With less than both, a field is only sampled. Never rules a mode out.
	Direct, Second uint32
	// First are the lookups before the first judgement, Window those between two, Sampled the same in the mode Sampling.
	First, Window, Sampled uint32
	// Found says that a value only counts as one that repeats if it was found, and not if it was seen before and dropped.
	Found bool
}

// Never is a part that no field reaches.
const Never = 9

// Rate counts how often the values of one field repeat, and picks the mode by it. The zero value begins with Direct.
//
// A sample is one value in 64, and of equal values all or none: so the rate within the sample is that of the whole, and the
// field is taken up again when it rises. From time to time other values become the sample; otherwise a field with few
// values might never be sampled.
type Rate struct {
	Mode         Mode
	judged       bool
	class        uint8  // of the values in the sample
	tried, found uint32 // lookups since the last judgement
	passed       uint32 // values since this class is the sample
	period       uint32 // after how many it changes
}

const (
	// Classes is the number of classes that a sample is one of.
	Classes     = 64
	firstPeriod = 1 << 10
	lastPeriod  = 1 << 15
)

// Samples reports whether a value of the class, which equal values have in common, is in the sample. It is to be asked once
// for each value in the mode Sampling.
func (r *Rate) Samples(class uint64) bool {
	if r.passed++; r.passed > r.period {
		r.class, r.passed, r.period = (r.class+1)%Classes, 0, min(2*r.period, lastPeriod)
	}
	return class%Classes == uint64(r.class)
}

// Note takes the outcome of a lookup: whether the value is one that was there before.
func (r *Rate) Note(p *Policy, repeated bool) {
	r.tried++
	if repeated {
		r.found++
	}
	window := p.Window
	switch {
	case r.Mode == Sampling:
		window = p.Sampled
	case !r.judged:
		window = p.First
	}
	if r.tried >= window {
		r.judge(p)
	}
}

func (r *Rate) judge(p *Policy) {
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
	r.judged, r.tried, r.found = true, 0, 0
}
