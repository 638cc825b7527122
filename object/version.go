package object

import (
	"fmt"
	"strings"
)

// CompareResourceVersions orders two resource versions of one resource. They compare as unsigned decimal
// numbers of any length (KEP-5504). The result is negative when a is older than b, zero when they are the
// same, positive when a is newer. An empty version counts as 0. A version that is not a decimal
// number is an error: such a server's versions cannot be ordered.
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

// OlderResourceVersion reports whether a is known to be older than b. It is false when either of them is
// empty or cannot be compared: what cannot be ordered is never held back.
func OlderResourceVersion(a, b string) bool {
	if a == "" || b == "" {
		return false
	}
	c, err := CompareResourceVersions(a, b)
	return err == nil && c < 0
}

// MaxResourceVersion returns the newer of a and b. An empty version never wins over another; of two that
// cannot be compared, b wins.
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
