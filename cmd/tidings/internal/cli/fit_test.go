package cli

import "testing"

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
