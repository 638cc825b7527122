package shards

import (
	"maps"
	"testing"
	"testing/synctest"
	"time"
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
