package reflector_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/tidings/tidings/object"
	"github.com/tidings/tidings/source"
)

// change is one write to the model; Deleted carries the last state under the version of the deletion.
type change struct {
	kind    source.EventType
	name    string
	version int
	history int // how often the server had been restored before
}

// state is what the change leaves behind, as obj reads it.
func (c change) state() string { return fmt.Sprintf("%d/%d", c.version, c.history) }

// model is an API server with one collection, whose every response may be wrong as long as trouble lasts. It keeps
// all history, but serves watches only from compacted on. Version n is the state after changes[:n].
type model struct {
	mu        sync.Mutex
	rand      *rand.Rand
	changes   []change
	compacted int
	changed   chan struct{} // closed with the next change
	trouble   bool
	// noWatchList is the status with which a server rejects WatchLists, or nil; neverEnds makes it close
	// every WatchList before its last bookmark.
	noWatchList error
	neverEnds   bool
	requests    []time.Time // all but those for further pages

	// mute says that a watch that starts at a future version is silent until that is reached, as at a real API server;
	// otherwise it is rejected.
	mute    bool
	history int       // how often the server was restored
	down    time.Time // until when it can not be reached
	stale   bool      // a most recent list was not
}

func newModel(random *rand.Rand) *model {
	m := &model{rand: random, changed: make(chan struct{}), trouble: true}
	m.mute = random.IntN(2) == 0
	switch random.IntN(4) {
	case 0:
		m.noWatchList = errInvalid
	case 1:
		m.neverEnds = true
	}
	m.write() // no server is ever at version 0
	return m
}

// state is the collection at a version: names and the versions of their objects.
func (m *model) state(version int) map[string]string {
	held := map[string]string{}
	for _, c := range m.changes[:version] {
		if c.kind == source.Deleted {
			delete(held, c.name)
		} else {
			held[c.name] = c.state()
		}
	}
	return held
}

// write makes one random change, and sometimes drops old history.
func (m *model) write() {
	m.mu.Lock()
	defer m.mu.Unlock()
	name := fmt.Sprint("o", m.rand.IntN(12))
	c := change{kind: source.Added, name: name, version: len(m.changes) + 1, history: m.history}
	if _, held := m.state(len(m.changes))[name]; held {
		c.kind = source.Modified
		if m.rand.IntN(3) == 0 {
			c.kind = source.Deleted
		}
	}
	m.changes = append(m.changes, c)
	if m.trouble && m.rand.IntN(20) == 0 {
		m.compacted = len(m.changes)
	}
	close(m.changed)
	m.changed = make(chan struct{})
}

// restore takes the server back to half of its history, and keeps it down for a while.
func (m *model) restore(down time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	half := len(m.changes) / 2
	m.changes, m.compacted = m.changes[:half:half], min(m.compacted, half)
	m.history++
	m.down = time.Now().Add(down)
	close(m.changed)
	m.changed = make(chan struct{})
}

// odds reports whether something goes wrong that goes wrong once in n times.
func (m *model) odds(n int) bool { return m.trouble && m.rand.IntN(n) == 0 }

// refuse returns an error that may be the response to any request.
func (m *model) refuse() error {
	if time.Now().Before(m.down) {
		return syscall.ECONNREFUSED
	}
	if !m.odds(3) {
		return nil
	}
	return []error{syscall.ECONNREFUSED, io.ErrUnexpectedEOF, errInternal, errBusy, errExpired, errTooLarge, errMissing,
		errors.New("garbage")}[m.rand.IntN(8)]
}

// List serves pages of three.
func (m *model) List(ctx context.Context, opts source.ListOptions[thing], each func(thing) error) (source.ListResult, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if opts.Continue == "" {
		m.requests = append(m.requests, time.Now())
	}
	if err := m.refuse(); err != nil {
		return source.ListResult{}, err
	}
	version, from := len(m.changes), 0
	if opts.Continue != "" {
		fmt.Sscanf(opts.Continue, "%d:%d", &version, &from)
		if version < m.compacted {
			return source.ListResult{}, errExpired
		}
	} else {
		if number(opts.ResourceVersion) > version && m.mute {
			return source.ListResult{}, errTooLarge
		}
		version = m.behind(opts.ResourceVersion)
	}
	limit := len(m.changes)
	if opts.Limit > 0 {
		limit = 3
	}
	held, n := m.state(version), 0
	for i := from; i < 12; i++ {
		name := fmt.Sprint("o", i)
		v, ok := held[name]
		if !ok {
			continue
		}
		if n == limit {
			return source.ListResult{ResourceVersion: strconv.Itoa(version), Continue: fmt.Sprintf("%d:%d", version, i)}, nil
		}
		if m.odds(20) {
			return source.ListResult{}, io.ErrUnexpectedEOF
		}
		n++
		if err := each(reuse(opts.Previous, obj(name+"@"+v))); err != nil {
			return source.ListResult{}, err
		}
	}
	return source.ListResult{ResourceVersion: strconv.Itoa(version)}, nil
}

// behind is the version of a response: now and then a stale replica responds. A most recent state is stale only once.
func (m *model) behind(wanted string) int {
	version := len(m.changes)
	if wanted == "" && m.stale || !m.odds(6) {
		return version
	}
	m.stale = m.stale || wanted == ""
	return 1 + m.rand.IntN(version)
}

// reuse does what a source does with an object that the caller holds in the same version.
func reuse(previous source.Previous[thing], o thing) thing {
	if previous == nil {
		return o
	}
	if held, ok := previous(object.Key{Name: o.Name}); ok && held.ResourceVersion == o.ResourceVersion {
		return held
	}
	return o
}

// Watch serves from any version that is not compacted.
func (m *model) Watch(ctx context.Context, opts source.WatchOptions[thing]) (source.Stream[thing], error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.requests = append(m.requests, time.Now())
	if err := m.refuse(); err != nil {
		return nil, err
	}
	s := &modelStream{model: m, ctx: ctx, end: time.Now().Add(opts.Timeout), history: m.history}
	s.at, _ = strconv.Atoi(opts.ResourceVersion)
	switch {
	case opts.SendInitialEvents && m.noWatchList != nil:
		return nil, m.noWatchList
	case opts.SendInitialEvents && s.at > len(m.changes) && m.mute:
		return nil, errTooLarge
	case opts.SendInitialEvents:
		s.at = m.behind(opts.ResourceVersion)
		held := m.state(s.at)
		for _, name := range slices.Sorted(maps.Keys(held)) { // sorted, so that a seed says all
			o := reuse(opts.Previous, obj(name+"@"+held[name]))
			s.initial = append(s.initial, event{Type: source.Added, Object: o, ResourceVersion: o.ResourceVersion})
		}
		s.initial = append(s.initial, initialEnd(strconv.Itoa(s.at)))
		if m.neverEnds {
			s.initial, s.end = s.initial[:len(s.initial)-1], time.Now()
		}
	case s.at < m.compacted:
		return nil, errExpired
	case s.at > len(m.changes) && !m.mute:
		return nil, errTooLarge
	}
	s.silent = m.odds(10)
	return s, nil
}

type modelStream struct {
	model   *model
	ctx     context.Context
	initial events
	at      int
	end     time.Time
	silent  bool // stalls for ever
	history int
}

func (s *modelStream) Close() error { return nil }

// Next returns one to three events, or waits for a change, the end of the watch, or a minute for a bookmark.
func (s *modelStream) Next(buf events) (events, error) {
	for {
		s.model.mu.Lock()
		buf, err := s.poll(buf)
		changed := s.model.changed
		s.model.mu.Unlock()
		if len(buf) > 0 || err != nil {
			return buf, err
		}
		if s.silent {
			<-s.ctx.Done()
			return buf, s.ctx.Err()
		}
		select {
		case <-s.ctx.Done():
			return buf, s.ctx.Err()
		case <-changed:
		case <-time.After(min(time.Minute, time.Until(s.end))):
			if s.at <= s.model.version() && time.Now().Before(s.end) {
				return append(buf, bookmark(strconv.Itoa(s.at))), nil
			}
		}
	}
}

// version is the server's present version.
func (m *model) version() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.changes)
}

// poll returns available events, with errors that may occur in a stream.
func (s *modelStream) poll(buf events) (events, error) {
	m := s.model
	switch {
	case s.history != m.history:
		return buf, io.ErrUnexpectedEOF
	case s.silent:
		return buf, nil
	case m.odds(8):
		return buf, []error{io.EOF, io.ErrUnexpectedEOF, errExpired, errBusy, errInternal, errors.New("garbage")}[m.rand.IntN(6)]
	case m.odds(200):
		return append(buf, event{Type: source.Invalid, Err: errors.New("garbage")}), nil
	case len(s.initial) > 0:
		n := min(len(s.initial), 1+m.rand.IntN(3))
		buf, s.initial = append(buf, s.initial[:n]...), s.initial[n:]
		return buf, nil
	case s.at > 0 && s.at <= len(m.changes) && m.odds(8):
		return append(buf, s.event(1+m.rand.IntN(s.at))), nil // once more
	}
	for range 1 + m.rand.IntN(3) {
		if s.at < len(m.changes) {
			s.at++
			buf = append(buf, s.event(s.at))
		}
	}
	if len(buf) == 0 && !time.Now().Before(s.end) {
		return buf, io.EOF
	}
	return buf, nil
}

func (s *modelStream) event(version int) event {
	c := s.model.changes[version-1]
	return ev(c.kind, c.name+"@"+c.state())
}
