package wire

import (
	"reflect"
	"testing"
)

// TestSumOfStats adds every number.
func TestSumOfStats(t *testing.T) {
	stats := func(n uint64, fields map[string]FieldStats) Stats {
		return Stats{
			Objects: n, Bytes: 2 * n, Lookups: 3 * n, Hits: 4 * n, SharedBytes: 5 * n, Corrupted: 6 * n,
			TableBytes: 7 * n, TableEntries: 8 * n, Fields: fields,
		}
	}
	field := func(n uint64) FieldStats {
		return FieldStats{Lookups: n, Hits: 2 * n, Bytes: 3 * n, SharedBytes: 4 * n}
	}
	a := stats(1, map[string]FieldStats{"a": field(1), "both": field(2)})
	b := stats(10, map[string]FieldStats{"b": field(10), "both": field(20)})
	want := stats(11, map[string]FieldStats{"a": field(1), "b": field(10), "both": field(22)})
	if got := a.Plus(b); !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if len(a.Fields) != 2 {
		t.Error("an operand was written to")
	}
	if got := (Stats{}).Plus(b); !reflect.DeepEqual(got, b) {
		t.Errorf("got %+v, want %+v", got, b)
	}
}
