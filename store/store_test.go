package store_test

import (
	"context"
	"errors"
	"testing"

	"github.com/tidings/tidings/object"
	"github.com/tidings/tidings/store"
)

// TestOptions requires that both callbacks are passed on, with what they are about.
func TestOptions(t *testing.T) {
	var panicked, written []string
	w := store.NewWriter[*thing](store.Options{
		OnIndexPanic: func(index string, key object.Key, _ any) { panicked = append(panicked, index+" "+key.Name) },
		OnStrayWrite: func(index string, key object.Key) { written = append(written, index+" "+key.Name) },
	})
	byApp := w.AddIndex("app", func(o *thing) []string {
		if o.Name == "broken" {
			panic("broken")
		}
		return []string{o.Labels["app"]}
	})
	a, broken := newThing("a", "web"), newThing("broken", "web")
	txn := w.Begin()
	txn.Set(object.KeyOf(a), a)
	txn.Set(object.KeyOf(broken), broken)
	txn.Commit()
	a.Labels["app"] = "db"
	txn = w.Begin()
	txn.Delete(object.KeyOf(a))
	s := txn.Commit()
	if len(panicked) == 0 || panicked[0] != "app broken" || len(written) != 1 || written[0] != "app a" {
		t.Errorf("panics in %q, writes to %q", panicked, written)
	}
	if err := s.Check(); err != nil || s.Len() != 1 || s.Count(byApp, "web") != 0 {
		t.Errorf("%d objects, %d found, %v", s.Len(), s.Count(byApp, "web"), err)
	}
}

// TestParts requires that namespaces have versions of their own, and that a rewritten history ends waits for the lost
// one with the package's own error.
func TestParts(t *testing.T) {
	w := store.NewWriter[*thing](store.Options{})
	txn := w.Begin()
	txn.Track("shop")
	txn.Track("other")
	txn.Replace("shop", object.Items[*thing]{newThing("a", "web")}, "8", false)
	if txn.Len() != 1 {
		t.Errorf("the transaction sees %d objects", txn.Len())
	}
	s := txn.Commit()
	if s.ResourceVersion() != "" || s.ResourceVersionIn("shop") != "8" || s.In("shop").Len() != 1 {
		inShop := s.In("shop").Len()
		t.Errorf("at %q, shop at %q with %d objects", s.ResourceVersion(), s.ResourceVersionIn("shop"), inShop)
	}
	if err := w.Store().WaitIn(t.Context(), "shop", "8"); err != nil {
		t.Error(err)
	}
	waits := make(chan error)
	started := make(chan struct{})
	go func() {
		close(started)
		waits <- w.Store().WaitForKey(t.Context(), object.Key{Namespace: "shop", Name: "b"}, "9")
	}()
	<-started
	txn = w.Begin()
	txn.Drop("other")
	txn.Replace("shop", object.Items[*thing]{newThing("b", "web")}, "9", false)
	s = txn.Commit()
	if err := <-waits; err != nil || s.ResourceVersion() != "9" {
		t.Errorf("%v; at %q", err, s.ResourceVersion())
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	err := w.Store().WaitIn(ended, "shop", "10")
	if waited, ok := errors.AsType[*store.WaitError](err); !ok || waited.Want != "10" || waited.Have != "9" {
		t.Errorf("got %v", err)
	}
	txn = w.Begin()
	txn.Set(object.Key{Namespace: "shop", Name: "c"}, newThing("c", "db"))
	txn.Abort()
	for key := range w.Store().Snapshot().Keys() {
		if key.Name != "b" {
			t.Errorf("%s is there", key)
		}
	}
}
