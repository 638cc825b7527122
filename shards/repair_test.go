package shards

import (
	"maps"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
)

// TestUnreadableTable makes the table unreadable. It is repaired, and nobody loses a shard, whoever is there to see it.
func TestUnreadableTable(t *testing.T) {
	for _, text := range []string{"", "{", "[]", `{"a":"x"}`} {
		synctest.Test(t, func(t *testing.T) { unreadableTable(t, text) })
	}
}

func unreadableTable(t *testing.T, text string) {
	w := newWorld(t, 1, 20)
	held := func(want int, of ...*process) {
		t.Helper()
		sum := 0
		for _, p := range of {
			sum += len(p.replica.Held())
		}
		if sum != want {
			t.Errorf("%q: %d replicas have %d shards, want %d: %s", text, len(of), sum, want, w.describe())
		}
		leases, _ := w.api.backup()
		if _, err := readTable(leases["group"], 20); err != nil {
			t.Error(err)
		}
	}
	first, second := w.start(), w.start()
	time.Sleep(5 * time.Second)
	of := first.replica.Held()
	w.api.spoil(text)
	time.Sleep(5 * time.Second)
	held(20, first, second)
	if !maps.Equal(of, first.replica.Held()) {
		t.Errorf("%q: a replica had %v, and has %v", text, of, first.replica.Held())
	}

	w.api.spoil(text)
	third := w.start()
	time.Sleep(5 * time.Second)
	held(20, first, second, third)
	if len(third.replica.Held()) == 0 {
		t.Errorf("%q: the third replica has nothing", text)
	}

	w.api.spoil(text)
	third.die()
	time.Sleep(20 * time.Second)
	held(20, first, second)
	if st := first.replica.Stats(); st.Losses > 0 {
		t.Errorf("%q: %+v", text, st)
	}

	w.api.spoil(text)
	first.die()
	second.die()
	fourth := w.start()
	time.Sleep(25 * time.Second)
	held(20, fourth)
	w.stopAll()
	w.checkReconciled()
}

// TestStaleClaims makes the table unreadable twice. A replica that has shards since has only said, for the first time,
// that it has none, and is cut off: until it is gone, nobody may take them.
func TestStaleClaims(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1, 20)
		first := w.start()
		time.Sleep(5 * time.Second)
		w.api.spoil("{")
		second := w.start()
		for range 60 {
			if time.Sleep(50 * time.Millisecond); len(second.replica.Held()) > 0 {
				break
			}
		}
		second.setCut(true)
		leases, _ := w.api.backup()
		stale := false
		for _, l := range leases {
			stale = stale || holderOf(l) == second.id && strings.HasSuffix(l.Annotations[claimsKey], " {}")
		}
		if held := len(second.replica.Held()); held == 0 || !stale {
			t.Fatalf("the second has %d shards, and says that it has none: %v", held, stale)
		}
		w.api.spoil("{")
		third := w.start()
		time.Sleep(7 * time.Second)
		for s := range second.replica.Held() {
			if _, ok := third.replica.Held()[s]; ok {
				t.Errorf("the second and the third have shard %d", s)
			}
		}
		time.Sleep(13 * time.Second)
		if n, m := len(first.replica.Held()), len(third.replica.Held()); n+m != 20 || m == 0 {
			t.Errorf("after the second has gone, the first has %d of 20 shards, the third %d", n, m)
		}
		w.stopAll()
		w.checkReconciled()
	})
}

// TestUnmarkedTable removes from the table's Lease what says whose it is. Nothing else changes, and it is there again.
func TestUnmarkedTable(t *testing.T) {
	for what, edit := range map[string]func(*coordinationv1.Lease){
		"no holder": func(l *coordinationv1.Lease) { l.Spec.HolderIdentity = nil },
		"no label":  func(l *coordinationv1.Lease) { delete(l.Labels, groupLabel) },
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, 1, 20)
			first, second := w.start(), w.start()
			time.Sleep(5 * time.Second)
			of := first.replica.Held()
			w.api.edit("group", edit)
			time.Sleep(5 * time.Second)
			leases, _ := w.api.backup()
			if table, err := readTable(leases["group"], 20); err != nil || !table.isMarked() {
				t.Errorf("%s: %+v, %v", what, leases["group"], err)
			}
			if st := second.replica.Stats(); !maps.Equal(of, first.replica.Held()) || st.Losses > 0 {
				t.Errorf("%s: the first had %v, and has %v; the second: %+v", what, of, first.replica.Held(), st)
			}
			w.stopAll()
			w.checkReconciled()
		})
	}
}
