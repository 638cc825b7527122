package workspace

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
	if got := importReplacer(slices.Concat(Factories, Tools)).Replace(text); got != want {
		t.Errorf("got\n%s", got)
	}
}
