package engine

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidings/tidings/object"
	"github.com/tidings/tidings/source"
)

// TestHealedObjectsAreSaved finds that the store differs from the server, at a version that is
// already saved: the wrong state is not saved, but the list's is, although it has the same version.
func TestHealedObjectsAreSaved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inf, _ := newSaved(t, t.TempDir(), false)
		o := namedSettings(1)
		o.ResourceVersion = "5"
		var src atomic.Pointer[answering]
		src.Store(&answering{items: []settings{o}})
		list := func(ctx context.Context, opts source.ListOptions[settings], each func(settings) error) (source.ListResult, error) {
			return src.Load().List(ctx, opts, each)
		}
		inf.cfg.NewSource = func(string) (source.ListerWatcher[settings], error) {
			return source.Funcs[settings]{ListFunc: list, WatchFunc: src.Load().Watch}, nil
		}
		inf.cfg.Files.Every, inf.cfg.NoWatchList = 24*time.Hour, true
		if err := inf.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		p := inf.currentParts()[0]
		inf.files.Save(t.Context(), p)
		src.Store(&answering{list: errors.New("down")})
		p.forceRelist(errors.New("it differs"))
		time.Sleep(time.Minute)
		synctest.Wait()
		inf.files.Save(t.Context(), p)
		if st := p.fileStatus(); st.Saves != 1 || st.Failures == 0 || !errors.Is(st.Err, errDiffers) {
			t.Errorf("%+v, while the store is known to be wrong", st)
		}
		changed := o.DeepCopy()
		changed.ResourceVersion = "6"
		src.Store(&answering{items: []settings{changed}})
		time.Sleep(time.Hour)
		inf.Halt(nil)
		<-inf.done
		next, pf := newSaved(t, inf.files.Dir, false)
		l, err := next.files.Load(t.Context(), pf)
		if err != nil {
			t.Fatal(err)
		}
		for key, saved := range l.Objects().All() {
			if saved.ResourceVersion != "6" {
				t.Errorf("%s is saved at %s", key, saved.ResourceVersion)
			}
		}
		if _, ok := inf.store.Snapshot().Get(object.KeyOf(o)); !ok || l.Objects().Len() != 1 {
			t.Errorf("%d objects are saved", l.Objects().Len())
		}
	})
}
