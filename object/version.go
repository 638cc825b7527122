package object

import (
	"fmt"
	"strings"
)

// CompareResourceVersions compares two versions of the same resource as unsigned decimal numbers of any length
// (KEP-5504). The result is negative if a is older than b, zero if they are equal, and positive if a is newer. An
// empty version counts as 0. A version that is not a decimal number is an error: the versions of such a server
// cannot be ordered.
func CompareResourceVersions(a, b string) (int, error) {
	if err := checkResourceVersion(a); err != nil {
		return 0, err
	}
	if err := checkResourceVersion(b); err != nil {
		return 0, err
	}
	a, b = strings.TrimLeft(a, "0"), strings.TrimLeft(b, "0")
	if len(a) != len(b) {
		return len(a) - len(b), nil
	}
	return strings.Compare(a, b), nil
}

// OlderResourceVersion reports whether a is known to be older than b. It is false if either of them is
// empty or not a number, so that objects whose versions cannot be ordered are never held back.
func OlderResourceVersion(a, b string) bool {
	if a == "" || b == "" {
		return false
	}
	c, err := CompareResourceVersions(a, b)
	return err == nil && c < 0
}

// MaxResourceVersion returns the newer of a and b. It never prefers an empty version; of two that
// cannot be compared, it returns b.
func MaxResourceVersion(a, b string) string {
	if b == "" || OlderResourceVersion(b, a) {
		return a
	}
	return b
}

func checkResourceVersion(v string) error {
	for i := range len(v) {
		if v[i] < '0' || v[i] > '9' {
			return fmt.Errorf("resource version %q is not a decimal number, so versions of this server cannot be ordered", v)
		}
	}
	return nil
}
