package json

import (
	"runtime"
	"strconv"
	"strings"
	"testing"
)

func TestBoxedEqualsUnquoted(t *testing.T) {
	var got []any
	var want []string
	for n := range 90 {
		for _, letter := range []string{"x", "é", "\n"} {
			raw := []byte(strconv.Quote(strings.Repeat(letter, n)))
			got, want = append(got, boxed(raw)), append(want, unquote(raw))
			clear(raw)
		}
	}
	runtime.GC() // the bytes of a box must be reachable for the collector
	for i, v := range got {
		if v != want[i] {
			t.Errorf("got %q, want %q", v, want[i])
		}
	}
}

func TestShortStringIsOneAllocation(t *testing.T) {
	raw := []byte(`"a string of 36 bytes, as a uid is it"`)
	if got := testing.AllocsPerRun(100, func() { boxed(raw) }); got != 1 {
		t.Errorf("boxing %s takes %v allocations", raw, got)
	}
}
