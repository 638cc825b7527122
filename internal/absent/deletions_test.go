package absent

import (
	"math/rand/v2"
	"strconv"
	"testing"

	"github.com/tidings/tidings/object"
)

func TestAbsence(t *testing.T) {
	var a Deletions
	key := object.Key{Name: "x"}
	a.Relisted("10")
	a.Record(key, "20")
	for version, want := range map[string]bool{"9": true, "10": true, "19": true, "20": false, "21": false, "": false, "opaque": false} {
		if got := a.IsStale(key, version); got != want {
			t.Errorf("version %q after the deletion at 20: %v, want %v", version, got, want)
		}
	}
	a.Record(key, "30") // it was recreated meanwhile
	if !a.IsStale(key, "29") || a.IsStale(key, "30") {
		t.Error("the later deletion does not count")
	}
	a.Record(key, "20") // a repeated event
	if !a.IsStale(key, "29") {
		t.Error("a repeated deletion takes the place of a later one")
	}
	other := object.Key{Name: "other"}
	if a.IsStale(other, "10") || !a.IsStale(other, "9") {
		t.Error("only what is older than the list is proven absent by it")
	}
	rnd := rand.New(rand.NewPCG(1, 2))
	for i := range 10 * rememberedDeletions {
		a.Record(object.Key{Name: string(rune('a' + rnd.IntN(26))), Namespace: string(rune(i))}, "30")
	}
	for i := range rememberedDeletions {
		a.Record(object.Key{Name: "last", Namespace: strconv.Itoa(i)}, "30")
	}
	for i := range rememberedDeletions {
		if !a.IsStale(object.Key{Name: "last", Namespace: strconv.Itoa(i)}, "29") {
			t.Fatalf("the %dth of the last %d deletions is forgotten", i, rememberedDeletions)
		}
	}
	if len(a.deleted) > rememberedDeletions || len(a.order) > rememberedDeletions {
		t.Errorf("%d deletions are remembered, want at most %d", len(a.deleted), rememberedDeletions)
	}
	again := object.Key{Name: "again"}
	for i := range rememberedDeletions + 1 {
		if i == 0 || i == rememberedDeletions-1 {
			a.Record(again, "30")
		}
		a.Record(object.Key{Name: "after", Namespace: strconv.Itoa(i)}, "30")
	}
	if !a.IsStale(again, "29") {
		t.Error("the last deletion of an object that was deleted twice is forgotten with the first")
	}
	a.Relisted("40")
	if a.IsStale(key, "41") || len(a.deleted) != 0 {
		t.Error("a list does not start over")
	}
}
