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

func (l *log) Added(p workqueue.Priority) { l.notes = append(l.notes, fmt.Sprint("added with ", p)) }
func (l *log) Raised(from, to workqueue.Priority) {
	l.notes = append(l.notes, fmt.Sprint("raised from ", from, " to ", to))
}
func (l *log) Started(p workqueue.Priority, waited time.Duration) {
	l.notes = append(l.notes, fmt.Sprint("started with ", p, " after ", waited))
}
func (l *log) Finished(worked time.Duration) {
	l.notes = append(l.notes, fmt.Sprint("finished after ", worked))
}

func TestObserver(t *testing.T) {
	for name, want := range map[string][]string{
		"q": {
			"added with 0", "started with 0 after 1s", "added with -1", "raised from -1 to 1", "finished after 2s",
			"started with 1 after 2s",
			"added with -1", "raised from -1 to 0", "started with 0 after 1m0s",
		},
		"": nil,
	} {
		synctest.Test(t, func(t *testing.T) {
			l := new(log)
			q := workqueue.New(workqueue.Options[string]{Name: name, Observer: l})
			q.Add("a")
			q.Add("a")
			time.Sleep(time.Second)
			mustGet(t, q)
			q.AddWith("a", workqueue.AddOptions{Priority: workqueue.Low})
			q.AddWith("a", workqueue.AddOptions{Priority: workqueue.High})
			q.Add("a")
			time.Sleep(2 * time.Second)
			q.Done("a")
			mustGet(t, q)
			q.AddWith("b", workqueue.AddOptions{Priority: workqueue.Low, Delay: time.Minute})
			time.Sleep(2 * time.Minute)
			q.Add("b")
			mustGet(t, q)
			if !slices.Equal(l.notes, want) {
				t.Errorf("the observer of %q was told %q, want %q", name, l.notes, want)
			}
		})
	}
}
