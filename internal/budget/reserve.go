package budget

import (
	"math"
	"runtime/metrics"
	"slices"
	"strings"
)

// reserve stands for objects that are about to be loaded, in the eyes of the garbage collector. It
// is memory that nobody touches, so it takes none of the machine's, only addresses.
//
// A collection is due when the heap has doubled since the last one. When a program starts from a
// file, its heap grows from nearly nothing to what will stay, so there is a collection at 4 MB, 8
// MB, 16 MB and so on, none of which finds much. With what is to come counted from the beginning,
// the heap reaches its final size between two collections, and is no larger than it will be anyway.
// The idea is known as a heap ballast; this one shrinks as the objects arrive.
//
// Only one goroutine may use it. The zero value is empty.
type reserve struct {
	blocks []*strings.Builder // each about as large as those after it together, unless the reserve has grown since it shrank
	size   int64
}

// leastReserve is the least that is worth reserving: a smaller heap is not collected.
const leastReserve = 4 << 20

// resize makes the reserve about this many bytes: at most leastReserve fewer, unless the program's
// memory limit has no room for them, and at most about twice as many, since it gives up whole
// blocks.
func (r *reserve) resize(bytes int64) {
	for len(r.blocks) > 0 && r.size-int64(r.blocks[0].Cap()) >= bytes {
		r.size -= int64(r.blocks[0].Cap())
		r.blocks = slices.Delete(r.blocks, 0, 1)
	}
	if bytes-r.size < leastReserve {
		return
	}
	for more := min(bytes-r.size, reservable()); more >= leastReserve; {
		block := new(strings.Builder)
		block.Grow(int(more / 2)) // unlike make, this does not clear memory that was in use before
		r.blocks = append(r.blocks, block)
		r.size += int64(block.Cap())
		more -= int64(block.Cap())
	}
}

// reservable returns how many bytes more may be reserved: half of the room below the memory limit,
// because what is no longer reserved still takes room until the next collection.
func reservable() int64 {
	samples := []metrics.Sample{
		{Name: "/gc/gogc:percent"}, {Name: "/gc/gomemlimit:bytes"}, {Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"},
	}
	metrics.Read(samples)
	percent, limit, mapped, released := samples[0].Value.Uint64(), samples[1].Value.Uint64(), samples[2].Value.Uint64(), samples[3].Value.Uint64()
	switch {
	case percent > math.MaxInt32: // only the limit causes collections
		return 0
	case math.MaxInt == math.MaxInt32: // addresses are scarce
		return 0
	case limit >= math.MaxInt64:
		return math.MaxInt64
	}
	return (int64(limit) - int64(mapped-released)) / 2
}

// Forecast reserves the memory of objects that are being decoded from a file.
type Forecast[T any] struct {
	reserve
	mean    float64 // the size of an object
	most    float64 // the most bytes to reserve
	measure int     // when this many objects are decoded, measure some again
}

const (
	// forecastAfter is how many objects must be decoded before there is a forecast. A file with
	// fewer does not need one.
	forecastAfter = 1000
	// forecastSample is how many objects are measured, and forecastFactor how many times more must
	// be decoded until the next measurement.
	forecastSample, forecastFactor = 64, 4
	// forecastMost bounds the reserve to this many times the memory of the objects that were
	// decoded, in case that these are unlike the rest.
	forecastMost = 100
	// forecastMargin is for the memory around the objects and for garbage, and because a collection
	// begins before the heap has doubled. With a factor of 2, the heap could become larger than it
	// will be anyway.
	forecastMargin = 1.75
)

// Update adjusts the reserve when n objects were decoded, the last of which are given, and read of
// them were read, which are this share of the file.
func (f *Forecast[T]) Update(last []T, n, read int, share float64) {
	if n < forecastAfter {
		return
	}
	if n >= f.measure {
		f.mean = MeanOf(last[:min(len(last), forecastSample)])
		f.most, f.measure = forecastMost*f.mean*float64(n), forecastFactor*n
	}
	left := float64(read)/share - float64(n)
	f.resize(int64(min(forecastMargin*f.mean*left, f.most)))
}

// Close reserves nothing any more.
func (f *Forecast[T]) Close() { f.resize(0) }
