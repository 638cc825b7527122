package budget

import "testing"

func TestFormatBytes(t *testing.T) {
	for n, want := range map[int64]string{
		0: "0 B", 9_999: "9999 B", 10_000: "10 kB", 9_999_999: "9999 kB", 10_000_000: "10 MB", 12_345_678_901: "12345 MB",
	} {
		if got := formatBytes(n); got != want {
			t.Errorf("%d is %q, want %q", n, got, want)
		}
	}
}
