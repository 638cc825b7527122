package timeline

import (
	"time"

	"github.com/tidings/tidings/cmd/tidings/internal/news"
)

// Story is a Printer with Options.Story, as tail tells stories.
type Story struct{ *Printer }

// Event takes a change, whether it belongs to the story or not.
func (s Story) Event(e news.Event) (lines []byte, told bool) { return s.Printer.Event(e), true }

// Tick returns the lines that are due at a time.
func (s Story) Tick(now time.Time) []byte { return s.opts.Story.Tick(now) }

// Close returns the lines that are open at the end.
func (s Story) Close() []byte { return s.opts.Story.Close() }

// Open returns the lines that are not complete.
func (s Story) Open() []string { return s.opts.Story.Open() }

// LeftOut is "": what does not belong to the story is not missing in it.
func (Story) LeftOut() string { return "" }
