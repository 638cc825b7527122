package story

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// trouble is something that goes wrong with an object.
type trouble struct {
	text   string
	first  time.Time
	told   time.Time
	every  time.Duration // before it may be told again
	count  int64         // how often it has happened; as an Event says, or as it was seen
	toldAt int64         // the count when it was last told
}

const (
	// again is the time before a trouble is told again. It doubles each time.
	again    = 10 * time.Second
	atMostIn = 5 * time.Minute
)

// trouble tells what goes wrong, as the last step of the object's open line if there is one. What has been told of the
// same topic in the same words is told again only after a while, with its count.
func (t *Teller) trouble(l *life, at time.Time, f fact) {
	known := l.troubles[f.topic]
	if known != nil && known.text == f.text {
		known.count++
		t.repeat(l, false)
		return
	}
	if l.troubles == nil {
		l.troubles = map[string]*trouble{}
	}
	l.troubles[f.topic] = &trouble{text: f.text, first: at, told: at, every: again, count: 1, toldAt: 1}
	t.complain(l, at, f.text)
}

// complain writes a line about what goes wrong.
func (t *Teller) complain(l *life, at time.Time, text string) {
	text = "! " + text
	if l.line != nil && l.line.await == 0 && l.goal == "" {
		l.line.state = ""
		began := l.line.at
		if after := at.Sub(l.began); after >= 100*time.Millisecond {
			text += " +" + roughly(after)
		}
		text = strings.TrimLeft(l.text(at)+" "+text, " ")
		l.line = nil
		t.write(began, l.ref, text, "", true)
	} else {
		t.write(at, l.ref, text, "", true)
	}
	l.told = true
}

// repeat tells troubles that went on and are due.
func (t *Teller) repeat(l *life, last bool) {
	for _, topic := range topicsOf(l) {
		tr := l.troubles[topic]
		if tr.count == tr.toldAt || !last && t.now.Sub(tr.told) < tr.every {
			continue
		}
		tr.told, tr.toldAt, tr.every = t.now, tr.count, min(2*tr.every, atMostIn)
		t.write(t.now, l.ref, fmt.Sprintf("! %s (%d times in %s)", tr.text, tr.count,
			roughly(t.now.Sub(tr.first))), "", true)
	}
}

// wasTold reports whether the last time that something went wrong was told, and not only counted.
func (l *life) wasTold(topic string) bool {
	tr := l.troubles[topic]
	return tr != nil && tr.count == tr.toldAt
}

// topicsOf returns what goes wrong with an object, in order.
func topicsOf(l *life) []string {
	if len(l.troubles) == 0 {
		return nil
	}
	return slices.Sorted(maps.Keys(l.troubles))
}
