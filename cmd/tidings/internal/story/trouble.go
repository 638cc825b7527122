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
	text  string
	first time.Time
	told  time.Time
	every time.Duration // before it may be told again
	// seen is how often fields said so, and events how often Events did, which are about the same. toldAt is what count
	// was when it was last told.
	seen, events, toldAt int64
	// words is how often it was put in other words, and mixed that those of text are only the last of several.
	words int
	mixed bool
	over  string // how it ended, if that is not told; "" while it goes on
}

func (tr *trouble) count() int64 { return max(tr.seen, tr.events) }

// untold reports whether it happened, or was put in other words, since it was told. An Event that counts no more than
// fields did may have other words.
func (tr *trouble) untold() bool { return tr.mixed || tr.count() != tr.toldAt }

// happens counts one more time of a trouble.
func (tr *trouble) happens(f fact) {
	tr.over = ""
	if f.events > 0 {
		tr.events += f.events
	} else {
		tr.seen++
	}
}

const (
	// again is the time before a trouble is told again. It doubles each time.
	again    = 10 * time.Second
	atMostIn = 5 * time.Minute
	// atOnce is how often a trouble in other words is told at once, and not only after a while.
	atOnce = 5
	// maxTroubles is how many troubles of an object are remembered.
	maxTroubles = 16
)

// trouble tells what goes wrong, as the last step of the object's open line if there is one. What has been told of the
// same topic is told again only after a while, with its count: at once in the same words, later in others too.
func (t *Teller) trouble(l *life, at time.Time, f fact) {
	tr := l.troubles[f.topic]
	switch {
	case tr == nil:
		t.newTrouble(l, at, f)
	case tr.text == f.text:
		tr.happens(f)
		t.repeat(l, false)
	case tr.words < atOnce || !tr.untold() && at.Sub(tr.told) >= again:
		words := min(tr.words+1, atOnce)
		t.tellUntold(l, tr)
		t.newTrouble(l, at, f).words = words
	default:
		tr.text, tr.mixed = f.text, true
		tr.happens(f)
		t.repeat(l, false)
	}
}

// newTrouble tells of a trouble for the first time, in these words.
func (t *Teller) newTrouble(l *life, at time.Time, f fact) *trouble {
	if l.troubles == nil {
		l.troubles = map[string]*trouble{}
	}
	tr := &trouble{text: f.text, first: at, told: at, every: again}
	tr.happens(f)
	tr.toldAt = tr.count()
	l.troubles[f.topic] = tr
	t.complain(l, at, f.text)
	for len(l.troubles) > maxTroubles {
		oldest := slices.MinFunc(topicsOf(l), func(a, b string) int {
			return l.troubles[a].told.Compare(l.troubles[b].told)
		})
		if oldest == f.topic {
			oldest = slices.DeleteFunc(topicsOf(l), func(topic string) bool { return topic == f.topic })[0]
		}
		t.tellUntold(l, l.troubles[oldest])
		delete(l.troubles, oldest)
	}
	return tr
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
		t.close(l)
		t.write(began, l.ref, text, "", true)
	} else {
		t.own(l)
		t.write(at, l.ref, text, "", true)
	}
	l.told = true
}

// repeat tells troubles that went on and are due.
func (t *Teller) repeat(l *life, last bool) {
	for _, topic := range topicsOf(l) {
		if tr := l.troubles[topic]; last || t.now.Sub(tr.told) >= tr.every {
			t.tellUntold(l, tr)
		}
	}
}

// tellUntold tells how often a trouble has happened, if that is not told.
func (t *Teller) tellUntold(l *life, tr *trouble) {
	n := tr.count()
	if !tr.untold() {
		return
	}
	text := fmt.Sprintf("! %s (%d times in %s)", tr.text, n, roughly(t.now.Sub(tr.first)))
	if tr.mixed {
		text = fmt.Sprintf("! %s (the last of %d times in %s)", tr.text, n, roughly(t.now.Sub(tr.first)))
	}
	if tr.over != "" {
		text += ", " + tr.over
	}
	tr.told, tr.toldAt, tr.every, tr.mixed = t.now, n, min(2*tr.every, atMostIn), false
	t.own(l)
	t.write(t.now, l.ref, text, "", true)
}

// healed returns a fact that says that a trouble is over, if the last time of it was told. If not, that is told along
// with it.
func (l *life) healed(topic string, f fact) []fact {
	switch tr := l.troubles[topic]; {
	case tr == nil:
		return nil
	case !tr.untold():
		return []fact{f}
	default:
		tr.over = f.text
		return nil
	}
}

// topicsOf returns what goes wrong with an object, in order.
func topicsOf(l *life) []string {
	if len(l.troubles) == 0 {
		return nil
	}
	return slices.Sorted(maps.Keys(l.troubles))
}
