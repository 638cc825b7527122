package workqueue_test

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidings/tidings/workqueue"
)

// log is an observer that records its calls.
type log struct{ notes []string }

func (l *log) Added() { l.notes = append(l.notes, "added") }
func (l *log) Started(waited time.Duration) {
	l.notes = append(l.notes, fmt.Sprint("started after ", waited))
}
func (l *log) Finished(worked time.Duration) {
	l.notes = append(l.notes, fmt.Sprint("finished after ", worked))
}

func TestObserver(t *testing.T) {
	for name, want := range map[string][]string{
		"q": {"added", "started after 1s", "added", "finished after 2s", "started after 2s", "added", "started after 1m0s"},
		"":  nil,
	} {
		synctest.Test(t, func(t *testing.T) {
			l := new(log)
			q := workqueue.New(workqueue.Options[string]{Name: name, Observer: l})
			q.Add("a")
			q.Add("a")
			time.Sleep(time.Second)
			mustGet(t, q)
			q.Add("a")
			time.Sleep(2 * time.Second)
			q.Done("a")
			mustGet(t, q)
			q.AddAfter("b", time.Minute)
			time.Sleep(2 * time.Minute)
			mustGet(t, q)
			if !slices.Equal(l.notes, want) {
				t.Errorf("the observer of %q was told %q, want %q", name, l.notes, want)
			}
		})
	}
}
