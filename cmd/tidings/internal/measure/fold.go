package measure

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tidings/tidings"
	"github.com/tidings/tidings/internal/budget"
	"github.com/tidings/tidings/source"
)

// Folded describes a resource with about the smallest memory budget that can be kept while nothing is read.
type Folded struct {
	// Budget is that budget in bytes, as in Options.MemoryBudget.
	Budget uint64 `json:"budget"`
	// HeapBytes is the live heap with that budget: an informer with its packed objects and
	// everything that belongs to it.
	HeapBytes uint64 `json:"heapBytes"`
	// Objects is the number of folded objects, and Unfoldable the number of those that cannot be folded and stay open.
	Objects    int64 `json:"objects"`
	Unfoldable int64 `json:"unfoldable"`
	// PackedBytes is the size of the packed objects and their dictionaries, and EncodedBytes the
	// size of the same objects in their encoding.
	PackedBytes  uint64 `json:"packedBytes"`
	EncodedBytes uint64 `json:"encodedBytes"`
	// OpenSeconds is the time to open one object when all are opened in order.
	OpenSeconds float64 `json:"openSeconds"`
}

// plus returns the sum; nil adds nothing.
func (f Folded) plus(o *Folded) Folded {
	if o == nil {
		return f
	}
	mean := ratio(f.OpenSeconds*float64(f.Objects)+o.OpenSeconds*float64(o.Objects), float64(f.Objects+o.Objects))
	return Folded{
		f.Budget + o.Budget, f.HeapBytes + o.HeapBytes, f.Objects + o.Objects, f.Unfoldable + o.Unfoldable,
		f.PackedBytes + o.PackedBytes, f.EncodedBytes + o.EncodedBytes, mean,
	}
}

// times scales the result to factor times as many objects.
func (f Folded) times(factor float64) Folded {
	scale := func(n uint64) uint64 { return uint64(float64(n) * factor) }
	return Folded{
		scale(f.Budget), scale(f.HeapBytes), int64(float64(f.Objects) * factor), int64(float64(f.Unfoldable) * factor),
		scale(f.PackedBytes), scale(f.EncodedBytes), f.OpenSeconds,
	}
}

const (
	// tinyBudget is a budget with which every object is folded that can be.
	tinyBudget = 1
	// maxTries is the maximum number of budgets to try. The size of what is folded grows a little with the budget.
	maxTries = 4
)

// foldMeasurer runs informers for the objects of a resource.
type foldMeasurer struct {
	raw      [][]byte
	kind     kind
	gvk      schema.GroupVersionKind
	resource schema.GroupVersionResource
}

// smallest returns about the smallest budget that can be kept: the size of everything folded, plus
// a little room, because objects are packed slightly differently each time.
func (f foldMeasurer) smallest(ctx context.Context) (Folded, error) {
	out, kept, err := f.tryBudget(ctx, tinyBudget)
	for try := 1; try < maxTries && err == nil && !kept; try++ {
		out, kept, err = f.tryBudget(ctx, int64(out.Budget)+int64(out.Budget)/16) // what it would have taken
	}
	return out, err
}

// tryBudget runs an informer with a budget. It returns what it takes, and whether it kept the budget.
func (f foldMeasurer) tryBudget(ctx context.Context, budget int64) (out Folded, kept bool, err error) {
	before := settledHeap()
	l := newLists(f.raw, f.gvk, f.kind.encoding)
	factory, informer, err := f.informer(l, budget)
	if err != nil {
		return out, false, err
	}
	defer func() { _ = factory.Shutdown(context.WithoutCancel(ctx)) }() // returns without waiting
	if err := factory.Start(ctx); err != nil {
		return out, false, err
	}
	err = factory.WaitForSyncFailFast(ctx)
	switch {
	case ctx.Err() != nil: // also ends the informer
		return out, false, context.Cause(ctx)
	case err != nil:
		return out, false, err
	}
	select {
	case <-l.watched: // by then everything is folded
	case <-ctx.Done():
		return out, false, context.Cause(ctx)
	}
	st := informer.Status()
	if st.Objects != len(f.raw) {
		return out, false, fmt.Errorf("an informer can only hold %d objects of %d", st.Objects, len(f.raw))
	}
	out = Folded{
		Budget: uint64(max(budget, st.Memory.Used)), HeapBytes: settledHeap().minus(before).bytes,
		Objects: int64(st.Memory.Folded), Unfoldable: int64(st.Memory.Unfoldable),
		PackedBytes: uint64(st.Memory.FoldedBytes), EncodedBytes: uint64(st.Memory.EncodedBytes),
	}
	out.OpenSeconds, err = openAll(ctx, informer)
	return out, st.Memory.Used <= budget, err
}

// informer creates an informer whose Go type is only known at run time: compiling one for each kind would take minutes.
func (f foldMeasurer) informer(l *lists, bytes int64) (*tidings.Factory, *tidings.SharedInformer[tidings.Object], error) {
	client, err := source.NewClient(l.config())
	if err != nil {
		return nil, nil, err
	}
	factory := tidings.NewSourceFactory(tidings.Options{
		Logger: slog.New(slog.DiscardHandler), NoMutationGuard: true, NoWatchList: true, MemoryBudget: bytes,
	})
	tidings.SetSource(factory, func(scope tidings.Scope, namespace string) (source.ListerWatcher[tidings.Object], error) {
		of := scope.Source(namespace)
		of.MaxSharedBytes = budget.SharedBytes(bytes)
		return source.NewHTTPLike(client, of, f.kind.example)
	})
	informer, err := tidings.Informer[tidings.Object](factory, tidings.Scope{Resource: f.resource})
	return factory, informer, err
}

// openAll opens all objects once, and returns the time per object.
func openAll(ctx context.Context, informer *tidings.SharedInformer[tidings.Object]) (seconds float64, err error) {
	began, n := time.Now(), 0
	for range informer.Lister().All() {
		if n++; n%checkEvery == 0 && ctx.Err() != nil {
			return 0, context.Cause(ctx)
		}
	}
	return time.Since(began).Seconds() / float64(max(1, n)), nil
}
