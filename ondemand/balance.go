package ondemand

import "time"

// What is reckoned with, in time of a core, the client's and the server's together. A request costs as much as about
// five bodies of 2 kB in a list or on a watch (BenchmarkBodies), and clouds sell a core for the price of 7.5 GB.
const (
	requestCost  = 250 * time.Microsecond
	bodyCost     = requestCost / 5
	bytesPerCore = 7.5e9
	// leastRegret is how much a change has to save: that many requests say something.
	leastRegret = 100 * requestCost
	// maxDoublings is how often that is doubled after changes that did not last.
	maxDoublings = 6
)

// balance decides whether all bodies are held, or read on demand. It is the rule of somebody who does not know whether
// to rent or to buy, in both directions: change when the other would have been cheaper by as much as a change costs.
// Whatever is read when, that takes at most about three times as much as the best decisions would have (the task system
// with two states of Borodin, Linial and Saks, 1992).
type balance struct {
	held      bool
	regret    time.Duration // by how much the other would have been cheaper since the last change, at least none
	last      time.Time
	doublings int
}

// usage is what happened since the last call of note.
type usage struct {
	objects int   // in the collection
	bytes   int64 // that all bodies take
	// requests and listed count the requests, and the bodies in lists, that reading on demand took or would have taken;
	// brought counts the bodies that the watch of all has brought.
	requests, listed, brought int
}

// note accounts for what happened until now, and reports whether to change.
func (b *balance) note(now time.Time, u usage) (change bool) {
	if b.last.IsZero() {
		b.last = now
	}
	onDemand := time.Duration(u.requests)*requestCost + time.Duration(u.listed)*bodyCost
	holding := time.Duration(float64(now.Sub(b.last))*float64(u.bytes)/bytesPerCore) + time.Duration(u.brought)*bodyCost
	b.last = now
	if b.held {
		onDemand, holding = holding, onDemand
	}
	b.regret = max(0, b.regret+onDemand-holding)
	return b.regret > b.price(u.objects)
}

// price is the cost of a change: the bodies are listed, and are gone after the next one.
func (b *balance) price(objects int) time.Duration {
	price := max(time.Duration(objects)*bodyCost, leastRegret)
	if b.held {
		return price
	}
	return price << b.doublings
}

// changed notes that all bodies are held from now on, or are not any more. What did not last has to save more the next
// time: as long as bodies are read on demand, nobody knows how many a watch would bring.
func (b *balance) changed(held bool) {
	if b.held && !held {
		b.doublings = min(b.doublings+1, maxDoublings)
	}
	b.held, b.regret = held, 0
}
