package moments

import (
	"iter"
	"time"

	"github.com/tidings/tidings/cmd/tidings/internal/history"
	"github.com/tidings/tidings/cmd/tidings/internal/news"
	"github.com/tidings/tidings/source/recording"
)

// Between returns what differs between two moments, sorted by object: one event for each object
// that was added, deleted or changed, with the time of its last change. What changed and changed
// back does not differ.
func Between(
	rec *recording.Recording, only history.Selection, from, to time.Time, opts news.Options,
) iter.Seq2[news.Event, error] {
	return func(yield func(news.Event, error) bool) {
		past, err := new(Past).read(rec, only, from, to, maxBytes)
		if err != nil {
			yield(news.Event{}, err)
			return
		}
		for _, o := range past.Objects() {
			e, differs, err := o.between(from, to, opts)
			if !differs && err == nil {
				continue
			}
			if !yield(e, err) || err != nil {
				return
			}
		}
	}
}

// between returns what differs of one object. What has not changed since the first moment is not unpacked.
func (o *Object) between(from, to time.Time, opts news.Options) (e news.Event, differs bool, err error) {
	if !o.last.After(from) {
		return e, false, nil
	}
	item := history.Item{Kind: history.Change, Time: o.last, Resource: o.Resource, Unknown: o.unknown}
	if item.Before, err = o.At(from); err != nil {
		return e, false, err
	}
	if item.After, err = o.At(to); err != nil {
		return e, false, err
	}
	if item.Before == nil && item.After == nil { // it came and went
		return e, false, nil
	}
	e = history.Event(item, opts)
	return e, e.Type != news.Modified || len(e.Changes) > 0, nil
}
