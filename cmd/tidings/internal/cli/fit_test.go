package cli

import (
	"strings"
	"testing"
)

func TestFit(t *testing.T) {
	for _, c := range []struct {
		text  string
		width int
		want  string
	}{
		{"short\n", 80, "short\n"},
		{"exactly8\n", 8, "exactly8\n"},
		{"longer than eight\nshort\n", 8, "longer …\nshort\n"},
		{"größer als acht", 8, "größer …"},
		{"\x1b[31mlonger than eight\x1b[0m\n", 8, "\x1b[31mlonger …\x1b[0m\n"},
		{"any width at all", 0, "any width at all"},
	} {
		if got := Fit(c.text, c.width); got != c.want {
			t.Errorf("%q in %d: %q, want %q", c.text, c.width, got, c.want)
		}
	}
}

// TestWrap: what follows a break is indented, at most so many rows are made, and nothing is lost or added at a break.
func TestWrap(t *testing.T) {
	for _, c := range []struct {
		text        string
		width, rows int
		want        string
	}{
		{"short\n", 80, 3, "short\n"},
		{"one two three four\n", 10, 0, "one two\n    three\n    four\n"},
		{"    ~ path: one two three\n", 16, 0, "    ~ path: one\n      two three\n"},
		{"    ~ path: one two three four five\n", 16, 2, "    ~ path: one\n      two three…\n"},
		{"  " + strings.Repeat("x", 30), 12, 0, "  " + strings.Repeat("x", 10) + "\n  " + strings.Repeat("x", 10) +
			"\n  " + strings.Repeat("x", 10)},
		{"\x1b[31mone two three\x1b[0m", 10, 0, "\x1b[31mone two\n    \x1b[31mthree\x1b[0m"},
		{"one two three four", 10, 1, "one two t…"},
		{"any width at all, however long", 0, 1, "any width at all, however long"},
	} {
		if got := Wrap(c.text, c.width, c.rows); got != c.want {
			t.Errorf("%q in %d:\n%q, want\n%q", c.text, c.width, got, c.want)
		}
	}
	if got, want := WrapLine("12:00 one two three", 10, 0, 3), "12:00 one\n   two\n   three"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
