package engine

import (
	"testing"
	"time"
)

// TestBeginningInherits what other parts had of the part's objects, and remembers that some of them are gone if that
// is newer.
func TestBeginningInherits(t *testing.T) {
	for _, tt := range []struct {
		floor, gone, notBefore string
	}{
		{"", "", ""},
		{"", "7", "7"},
		{"5", "7", "7"},
		{"7", "7", ""},
		{"9", "7", ""},
		{"9", "", ""},
	} {
		var b beginning
		b.inherit(tt.floor, tt.gone)
		if b.floor != tt.floor || b.notBefore != tt.notBefore || b.knowsNothing() != (tt.floor == "") || b.over() {
			t.Errorf("%+v: floor %q, not before %q, knows nothing: %t", tt, b.floor, b.notBefore, b.knowsNothing())
		}
	}
}

// TestBeginningFromAFile: the watch catches up with the version that the server was at. Its changes wait for handlers
// if that is unknown, or once the beginning is over.
func TestBeginningFromAFile(t *testing.T) {
	for _, tt := range []struct {
		goal            string
		catchesUp       bool
		mayWait         bool
		at9, at10, at11 bool
	}{
		{"", true, true, false, false, false},
		{"10", true, false, false, true, true},
		{"5", false, true, false, false, false},
		{"4", false, true, false, false, false},
	} {
		var b beginning
		b.resumeFrom("5")
		if got := b.catchUp(tt.goal); got != tt.catchesUp || b.mayWait() != tt.mayWait || b.knowsNothing() {
			t.Errorf("%+v: catches up: %t, changes may wait: %t", tt, got, b.mayWait())
		}
		if b.hasReached("9") != tt.at9 || b.hasReached("10") != tt.at10 || b.hasReached("11") != tt.at11 {
			t.Errorf("%+v: reached %t, %t, %t", tt, b.hasReached("9"), b.hasReached("10"), b.hasReached("11"))
		}
		if b.end(); !b.over() || !b.mayWait() {
			t.Errorf("%+v: over: %t, changes may wait: %t", tt, b.over(), b.mayWait())
		}
	}
}

// TestBeginningIsQuiet since the last news, but not while something is being added.
func TestBeginningIsQuiet(t *testing.T) {
	var b beginning
	if got := b.quiet(time.Minute); got != time.Minute {
		t.Errorf("quiet for %v without any news", got)
	}
	b.news(time.Minute)
	b.adding.Store(true)
	if got := b.quiet(time.Hour); got != 0 {
		t.Errorf("quiet for %v while something is added", got)
	}
	b.adding.Store(false)
	if got := b.quiet(time.Minute + time.Second); got != time.Second {
		t.Errorf("quiet for %v, want a second", got)
	}
}
