package operator

import (
	"testing"

	"github.com/go-logr/logr"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/tidings/tidings/bench/internal/measure"
)

// TestJobs: behind the gate, an operator on controller-runtime makes no duplicates, and takes as long as one on Tidings' own
// controller. The operator without anything shows that there would be duplicates, and those whose reads wait that it would
// take longer. All times are virtual.
func TestJobs(t *testing.T) {
	ctrllog.SetLogger(logr.Discard())
	utilruntime.ErrorHandlers = nil // one of them delays by the time since its last error, which was in another bubble
	got := map[Writes]measure.Metrics{}
	for _, w := range []Writes{Controller, Gated, Waiting, TheirOption, Unaware} {
		t.Run(string(w), func(t *testing.T) { got[w] = Jobs{Objects: JobObjects, Writes: w}.run(t) })
		t.Log(w, got[w])
	}
	for _, w := range []Writes{Controller, Gated, Waiting} {
		if n := got[w]["duplicates"]; n != 0 {
			t.Errorf("%s: %v duplicates", w, n)
		}
	}
	if got[Unaware]["duplicates"] == 0 {
		t.Error("the test makes no duplicates without the gate either")
	}
	gated, native, waiting := got[Gated]["time"], got[Controller]["time"], got[Waiting]["time"]
	if gated > 1.1*native || waiting < 2*native {
		t.Errorf("%.1f s behind the gate, %.1f s with the controller, and %.1f s with reads that wait", gated, native, waiting)
	}
}
