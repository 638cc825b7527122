package intake

import "github.com/tidings/tidings/object"

// Mutations are the Internals of an informer that concern writes to its objects.
type Mutations interface {
	// GuardsMutations reports whether the informer looks for writes to its objects.
	GuardsMutations() bool
	// ReportMutation reports a write to what was made from the object under key, as if the guard had found a write to
	// the object. The handler may be empty.
	ReportMutation(key object.Key, handler string)
}
