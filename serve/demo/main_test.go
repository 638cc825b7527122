package main

import (
	"strings"
	"testing"

	"github.com/tidings/tidings/tidingstest"
)

// TestDemo runs the whole demo, which checks itself.
func TestDemo(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a control plane")
	}
	tidingstest.CheckLeaks(t)
	var out strings.Builder
	if err := run(t.Context(), &out); err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	for _, want := range []string{"both hold the API server's 197 pods", theirAgent + "     nothing", "tokenreviews"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the output has no %q:\n%s", want, out.String())
		}
	}
}
