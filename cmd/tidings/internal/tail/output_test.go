package tail

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tidings/tidings/cmd/tidings/internal/cli"
)

// TestLongPause: of a pause that is too long the end is kept, and what was dropped is counted.
func TestLongPause(t *testing.T) {
	var out, messages bytes.Buffer
	o := output{screen: cli.NewScreen(&out, &messages), held: &held{}}
	o.opts.Printer = newLedger()
	line := strings.Repeat("x", 1<<10)
	const n = 3 * maxHeld >> 10
	for i := range n {
		if err := o.write(t.Context(), fmt.Appendf(nil, "%s %d\n", line, i), i%3 == 0); err != nil {
			t.Fatal(err)
		}
		if o.held.bytes > maxHeld {
			t.Fatalf("%d bytes are kept", o.held.bytes)
		}
	}
	kept, dropped := o.held.changes, o.held.dropped
	if err := o.release(t.Context()); err != nil {
		t.Fatal(err)
	}
	o.screen.Close(time.Minute)
	if got := bytes.Count(out.Bytes(), []byte("\n")); got != kept || kept+dropped != n-n/3 {
		t.Errorf("%d changes are shown, %d were kept and %d dropped of %d", got, kept, dropped, n-n/3)
	}
	if !strings.HasSuffix(out.String(), fmt.Sprintf(" %d\n", n-1)) {
		t.Error("the last change is not shown")
	}
	if want := fmt.Sprintf("the first %d changes of it were dropped", dropped); !strings.Contains(messages.String(), want) {
		t.Errorf("the messages lack %q", want)
	}
}
