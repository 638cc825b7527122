package deltafifo

// DefaultLimit is the default of Options.Limit.
const DefaultLimit = 1024

// Policy is what happens to deltas while the consumer is behind.
type Policy uint8

// The policies. Coalesce is the default.
const (
	// Coalesce merges the deltas of one object. The number of pending ones is bounded by the number of objects.
	Coalesce Policy = iota
	// Block keeps every delta. The queue is full when Options.Limit deltas are pending, and
	// WaitForRoom waits until it is not.
	Block
	// Unbounded keeps every delta, without limit.
	Unbounded
)

var policyNames = [...]string{Coalesce: "Coalesce", Block: "Block", Unbounded: "Unbounded"}

// String returns the policy's name.
func (p Policy) String() string {
	if int(p) < len(policyNames) {
		return policyNames[p]
	}
	return "unknown"
}

// Options configures a Queue. The zero value is ready to use.
type Options struct {
	Policy Policy
	// Limit is the number of pending deltas at which a Block queue is full; 0 means DefaultLimit. A single Add may
	// exceed it.
	Limit int
}
