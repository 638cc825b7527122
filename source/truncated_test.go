package source_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/tidings/tidings/source"
	"github.com/tidings/tidings/tidingstest"
)

// TestTruncatedLists truncates the body of a list at every byte. If nothing declared its length,
// such a body ends cleanly there; it must not pass for a collection with fewer objects.
func TestTruncatedLists(t *testing.T) {
	bubble(t, tidingstest.ServerOptions{}, func(t *testing.T, s *tidingstest.Server) {
		s.Create(pod("a", "x"))
		for _, accept := range []string{"application/json", "application/vnd.kubernetes.protobuf"} {
			contentType, body := fetch(t, s, "", accept)
			whole := strings.TrimSuffix(string(body), "\n")
			for i := range whole {
				from := answeredBy(t, &scripted{contentType: contentType, bodies: []string{whole[:i]}}, 0)
				objects, result, err := list(t.Context(), from, source.ListOptions[*corev1.Pod]{})
				if err == nil && (len(objects) != 1 || result.ResourceVersion == "") {
					t.Errorf("%s: %d of %d bytes are a list of %d objects at version %q", accept, i, len(whole), len(objects), result.ResourceVersion)
				}
			}
		}
	})
}
