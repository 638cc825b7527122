package engine

import (
	"context"
	"io"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/tidings/tidings/internal/intake"
	"github.com/tidings/tidings/internal/store"
	"github.com/tidings/tidings/source"
)

// comparing is a source that has objects decoded by the engine, and calls before with each before it hands it out.
type comparing struct {
	*answering
	before func(intake.Received[settings])
}

func (s *comparing) Self() any { return s }

func (s *comparing) ListDecoded(
	ctx context.Context, opts source.ListOptions[settings], by intake.Decoder[settings],
	each func(intake.Received[settings]) error,
) (source.ListResult, error) {
	return s.List(ctx, opts, func(o settings) error {
		by.Begin()
		e := arriving(nil, o.DeepCopy())
		e.Reuse = opts.Previous != nil
		r, err := by.Decode(e)
		if err != nil {
			return err
		}
		s.before(r)
		return each(r)
	})
}

func (s *comparing) WatchDecoded(
	ctx context.Context, _ source.WatchOptions[settings], _ intake.Decoder[settings],
) (source.Stream[settings], error) {
	return expiring{quiet{ctx}}, nil
}

// expiring is a watch that ends after a minute, since its version has expired.
type expiring struct{ quiet }

func (e expiring) Next(buf []source.Event[settings]) ([]source.Event[settings], error) {
	select {
	case <-time.After(time.Minute):
		return buf, apierrors.NewResourceExpired("gone")
	case <-e.ctx.Done():
		return buf, io.EOF
	}
}

// TestObjectRemovedByHandWhileItIsListed removes a folded object from the store after the source
// looked at it and before it arrives: the list has it nevertheless.
func TestObjectRemovedByHandWhileItIsListed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var inf *Informer[settings]
		gone := keyOf(7)
		removals := 0
		inf = withBudget(1, &comparing{&answering{items: manySettings(20)}, func(r intake.Received[settings]) {
			if r.Unchanged && r.Object == nil && r.Key() == gone && removals == 0 {
				removals++
				inf.Edit(func(txn *store.Txn[settings]) { txn.Delete(gone) })
			}
		}})
		startIt(t, inf)
		runtime.GC() // otherwise the objects are still open
		runtime.GC()
		time.Sleep(time.Hour)
		synctest.Wait()
		o, ok := inf.store.Snapshot().Get(gone)
		if removals != 1 || !ok || !strings.HasPrefix(o.Data["text"], "7all") {
			t.Errorf("after %d removals the store has %v", removals, o)
		}
		inf.Edit(func(txn *store.Txn[settings]) {
			for i := range 20 {
				txn.Delete(keyOf(i))
			}
		})
		if st := inf.store.Snapshot().FoldStats(); st.Folded != 0 || st.EncodedBytes != 0 || st.Bytes < 0 {
			t.Errorf("%+v of no objects", st)
		}
	})
}
