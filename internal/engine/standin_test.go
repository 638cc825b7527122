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

	"github.com/tidings/tidings/object"
	"github.com/tidings/tidings/source"
	"github.com/tidings/tidings/store"
)

// comparing is a source that hands out the store's object again if it is unchanged, as source.HTTP
// does. before is called between the two.
type comparing struct {
	*answering
	before func(settings)
}

func (comparing) HandsOnUnseen() bool { return true }

func (s comparing) List(ctx context.Context, opts source.ListOptions[settings], each func(settings) error) (source.ListResult, error) {
	return s.answering.List(ctx, opts, func(o settings) error {
		o = o.DeepCopy()
		if opts.Previous == nil {
			return each(o)
		}
		if known, ok := opts.Previous(object.KeyOf(o)); ok && known.UID == o.UID && known.ResourceVersion == o.ResourceVersion {
			o = known
		}
		s.before(o)
		return each(o)
	})
}

func (s comparing) Watch(ctx context.Context, opts source.WatchOptions[settings]) (source.Stream[settings], error) {
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
// looked at it and before it arrives: its stand-in is not taken for the object.
func TestObjectRemovedByHandWhileItIsListed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var inf *Informer[settings]
		gone := keyOf(7)
		removals := 0
		inf = withBudget(1, comparing{&answering{items: manySettings(20)}, func(o settings) {
			if object.KeyOf(o) == gone && o.GetSelfLink() != "" && removals == 0 {
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
		if removals != 1 || !ok || !strings.HasPrefix(o.Data["text"], "7all") || o.GetSelfLink() != "" {
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
