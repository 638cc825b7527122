package suites

import (
	"slices"
	"testing"
)

func TestImportReplacer(t *testing.T) {
	const text = `import (
	"k8s.io/client-go/informers"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/tools/cache"
	upstream "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/cache/testing"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/client-go/dynamic/dynamicinformer"
)`
	const want = `import (
	"github.com/tidings/tidings/clientgo/informers"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"github.com/tidings/tidings/clientgo/cache"
	upstream "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/cache/testing"
	"github.com/tidings/tidings/clientgo/workqueue"
	"github.com/tidings/tidings/clientgo/dynamicinformer"
)`
	if got := importReplacer(slices.Concat(factories, tools)).Replace(text); got != want {
		t.Errorf("got\n%s", got)
	}
}

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
