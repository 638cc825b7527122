package measure

import (
	"fmt"

	"github.com/tidings/tidings/cmd/tidings/internal/cli"
)

const (
	// worthMoving is from how many saved bytes on it is said that objects could be read on demand.
	worthMoving = 1 << 20
	// mostRead is the largest share of objects of which that is recommended: each read of a new version is a request.
	mostRead = 90
)

// onDemand says of which resources the metadata alone would take much less, and how few of the objects have to be read
// for that. How many are read is not known here.
func (r Report) onDemand() string {
	text := ""
	for _, result := range r.Resources {
		if share := result.readAtMost(); share > 0 {
			text += fmt.Sprintf("Read on demand, %s take %s for the metadata of all, and the bodies of those that are "+
				"read: less than a cache if fewer than %d%% are read (docs/on-demand.md).\n",
				cli.Printable(result.Resource), size(result.Metadata.CacheBytes), share)
		}
	}
	return text
}

// readAtMost returns of which share of the objects, in percent, the bodies may be read so that objects on demand take
// less memory than a cache of all, or 0 if it is not worth the requests. Bodies are held encoded.
func (r Result) readAtMost() int {
	if r.Metadata == nil || r.WireBytes == 0 {
		return 0
	}
	all, metadata := r.Tidings.CacheBytes, r.Metadata.CacheBytes
	if all < 2*metadata || all-metadata < worthMoving {
		return 0
	}
	const step = 5
	return min(int(100*float64(all-metadata)/float64(r.WireBytes))/step*step, mostRead)
}
