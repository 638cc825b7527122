package suites

import "testing"

// TestControllerName: the package that the controllers share has its tests in its own folder.
func TestControllerName(t *testing.T) {
	for path, want := range map[string]string{
		"k8s.io/kubernetes/pkg/controller":             ".",
		"k8s.io/kubernetes/pkg/controller/job":         "job",
		"k8s.io/kubernetes/pkg/controller/daemon/util": "daemon/util",
	} {
		if got := controllerName(path); got != want {
			t.Errorf("%s is called %q, want %q", path, got, want)
		}
	}
}
