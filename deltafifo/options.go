package deltafifo

// DefaultLimit is the Limit of the zero Options.
const DefaultLimit = 1024

// Policy says what happens to deltas while the consumer is behind.
type Policy uint8

// The policies. Coalesce is the default.
const (
	// Coalesce merges the deltas of one object. What is pending is bounded by the number of objects.
	Coalesce Policy = iota
	// Block keeps every delta. The queue counts as full once Options.Limit deltas are pending, and producers that call
	// WaitForRoom wait then.
	Block
	// Unbounded keeps every delta, however many there are.
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

// Options configures a Queue. Its zero value works.
type Options struct {
	Policy Policy
	// Limit is the number of pending deltas from which a Block queue is full; 0 means DefaultLimit. A single Add may
	// exceed it.
	Limit int
}
