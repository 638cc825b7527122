package measure

import (
	"cmp"
	"maps"
	"slices"

	"github.com/tidings/tidings/internal/wire"
)

// Encoding is the encoding of objects on the wire.
type Encoding string

// The encodings. Built-in kinds of stable versions are compared as Go types decoded from protobuf, all others as
// unstructured objects decoded from JSON.
const (
	Protobuf Encoding = "protobuf"
	JSON     Encoding = "json"
)

// Report is the result of a measurement. Its JSON form is documented in docs/measure.md.
type Report struct {
	everywhere bool // all namespaces were asked for

	// Resources are the measured resources, in the requested order.
	Resources []Result `json:"resources"`
	// Failures are the resources that could not be measured.
	Failures []Failure `json:"failures"`
	Total    Total     `json:"total"`
}

// Result is the measurement of one resource. If only a sample of it was decoded, all sizes and times are extrapolated
// in proportion to the number of objects; Sharing describes only the sample.
type Result struct {
	Resource string   `json:"resource"` // with its group, such as "replicasets.apps"
	Version  string   `json:"version"`
	Encoding Encoding `json:"encoding"`

	Objects      int64   `json:"objects"`
	Sampled      int64   `json:"sampled"`      // objects that were decoded
	Extrapolated bool    `json:"extrapolated"` // Sampled is less than Objects
	WireBytes    int64   `json:"wireBytes"`    // encoded objects, before compression
	FetchSeconds float64 `json:"fetchSeconds"` // to read all pages of the list, without decoding

	ClientGo Weight `json:"clientGo"`
	Tidings  Weight `json:"tidings"` // with all objects open
	// UnreadBytes is what a cache of Tidings takes while nobody reads its objects.
	UnreadBytes uint64 `json:"unreadBytes"`
	// The same without metadata.managedFields, if requested.
	ClientGoTrimmed *Weight `json:"clientGoTrimmed,omitempty"`
	TidingsTrimmed  *Weight `json:"tidingsTrimmed,omitempty"`
	// Folded is the effect of a memory budget; nil without objects.
	Folded *Folded `json:"folded,omitempty"`
	// Metadata is what Tidings holds of objects that are read on demand, without what is read; nil without objects.
	Metadata *Weight `json:"metadata,omitempty"`

	Sharing Sharing `json:"sharing"`
}

// Weight is what the objects of a resource take in a cache of one of the libraries, including what the decoder
// retains.
type Weight struct {
	HeapBytes     uint64  `json:"heapBytes"`    // the decoded objects
	HeapObjects   uint64  `json:"heapObjects"`  // separate heap allocations, which the garbage collector has to visit
	CacheBytes    uint64  `json:"cacheBytes"`   // HeapBytes and the store around them
	CacheObjects  uint64  `json:"cacheObjects"` // HeapObjects and those of the store
	DecodeSeconds float64 `json:"decodeSeconds"`
	SyncSeconds   float64 `json:"syncSeconds"` // FetchSeconds and DecodeSeconds: an estimate, because they may overlap
}

// Sharing says which parts of the objects were equal and stored once.
type Sharing struct {
	Bytes       uint64 `json:"bytes"`       // encoded bytes of the sample
	SharedBytes uint64 `json:"sharedBytes"` // of these, parts that were already known
	Lookups     uint64 `json:"lookups"`
	Hits        uint64 `json:"hits"`
	TableBytes  uint64 `json:"tableBytes"` // memory of the tables; included in the Weight
	// Fields are the fields that were looked up, those that saved the most first.
	Fields []FieldSharing `json:"fields"`
}

// FieldSharing is one field's share of Sharing. A field within a shared part is not looked up.
type FieldSharing struct {
	Field       string `json:"field"` // such as "spec.containers.env"
	Lookups     uint64 `json:"lookups"`
	Hits        uint64 `json:"hits"`
	Bytes       uint64 `json:"bytes"`
	SharedBytes uint64 `json:"sharedBytes"`
}

// Failure says why a resource was not measured.
type Failure struct {
	Resource string `json:"resource"`
	// Forbidden is set if the user may not list the resource.
	Forbidden bool   `json:"forbidden"`
	Message   string `json:"message"`
}

// Total is the sum of all results.
type Total struct {
	Objects         int64   `json:"objects"`
	Extrapolated    bool    `json:"extrapolated"` // part of the sum is
	WireBytes       int64   `json:"wireBytes"`
	FetchSeconds    float64 `json:"fetchSeconds"`
	ClientGo        Weight  `json:"clientGo"`
	Tidings         Weight  `json:"tidings"`
	UnreadBytes     uint64  `json:"unreadBytes"`
	ClientGoTrimmed *Weight `json:"clientGoTrimmed,omitempty"`
	TidingsTrimmed  *Weight `json:"tidingsTrimmed,omitempty"`
	Folded          *Folded `json:"folded,omitempty"` // one budget for all; OpenSeconds is the mean over the objects
	// Ratio is Tidings.CacheBytes divided by ClientGo.CacheBytes; 0 if there is nothing to compare.
	Ratio float64 `json:"ratio"`
	// UnreadRatio is UnreadBytes divided by ClientGo.CacheBytes; 0 if there is nothing to compare.
	UnreadRatio float64 `json:"unreadRatio"`
}

// leftAlone is how much memory of open objects an informer leaves alone; see docs/memory.md.
const leftAlone = 4 << 20

// unread returns what a cache takes while nobody reads its objects.
func (r Result) unread() uint64 {
	if r.Folded == nil || r.Tidings.CacheBytes < leftAlone {
		return r.Tidings.CacheBytes
	}
	return min(r.Folded.HeapBytes, r.Tidings.CacheBytes)
}

// add adds a result.
func (t *Total) add(r Result) {
	t.Objects += r.Objects
	t.Extrapolated = t.Extrapolated || r.Extrapolated
	t.WireBytes += r.WireBytes
	t.FetchSeconds += r.FetchSeconds
	t.ClientGo = t.ClientGo.plus(&r.ClientGo)
	t.Tidings = t.Tidings.plus(&r.Tidings)
	if r.ClientGoTrimmed != nil {
		t.ClientGoTrimmed = new(r.ClientGoTrimmed.plus(t.ClientGoTrimmed))
		t.TidingsTrimmed = new(r.TidingsTrimmed.plus(t.TidingsTrimmed))
	}
	if r.Folded != nil {
		t.Folded = new(r.Folded.plus(t.Folded))
	}
	t.UnreadBytes += r.unread()
	t.Ratio = t.compare(t.Tidings, t.ClientGo)
	t.UnreadRatio = t.compare(Weight{CacheBytes: t.UnreadBytes}, t.ClientGo)
}

// compare returns the ratio of two caches, or 0 without objects: what is left is the size of empty caches.
func (t *Total) compare(ours, theirs Weight) float64 {
	if t.Objects == 0 {
		return 0
	}
	return ratio(ours.CacheBytes, theirs.CacheBytes)
}

// plus returns the sum; nil adds nothing.
func (w Weight) plus(o *Weight) Weight {
	if o == nil {
		return w
	}
	return Weight{
		w.HeapBytes + o.HeapBytes, w.HeapObjects + o.HeapObjects, w.CacheBytes + o.CacheBytes, w.CacheObjects + o.CacheObjects,
		w.DecodeSeconds + o.DecodeSeconds, w.SyncSeconds + o.SyncSeconds,
	}
}

// times scales the weight to factor times as many objects.
func (w Weight) times(factor float64) Weight {
	scale := func(n uint64) uint64 { return uint64(float64(n) * factor) }
	return Weight{
		scale(w.HeapBytes), scale(w.HeapObjects), scale(w.CacheBytes), scale(w.CacheObjects),
		w.DecodeSeconds * factor, w.SyncSeconds * factor,
	}
}

// ratio returns a/b, or 0 if b is 0.
func ratio[N uint64 | float64](a, b N) float64 {
	if b == 0 {
		return 0
	}
	return float64(a) / float64(b)
}

func sharing(stats wire.Stats) Sharing {
	s := Sharing{Bytes: stats.Bytes, SharedBytes: stats.SharedBytes, Lookups: stats.Lookups, Hits: stats.Hits, TableBytes: stats.TableBytes, Fields: []FieldSharing{}}
	for _, field := range slices.Sorted(maps.Keys(stats.Fields)) {
		f := stats.Fields[field]
		s.Fields = append(s.Fields, FieldSharing{field, f.Lookups, f.Hits, f.Bytes, f.SharedBytes})
	}
	slices.SortStableFunc(s.Fields, func(a, b FieldSharing) int { return cmp.Compare(b.SharedBytes, a.SharedBytes) })
	return s
}
