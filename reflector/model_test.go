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

	"github.com/tidings/tidings/source"
)

// change is one write to the model; Deleted carries the last state under the version of the deletion.
type change struct {
	kind    source.EventType
	name    string
	version int
}

// model is an API server with one collection, whose every answer may go wrong as long as trouble lasts. It keeps
// all history, but serves watches only from compacted on. Version n is the state after changes[:n].
type model struct {
	mu        sync.Mutex
	rand      *rand.Rand
	changes   []change
	compacted int
	changed   chan struct{} // closed with the next change
	trouble   bool
	// noWatchList is the status with which a server turns WatchLists down, or nil; neverEnds makes it close
	// every WatchList before its last bookmark.
	noWatchList error
	neverEnds   bool
	requests    []time.Time
}

func newModel(random *rand.Rand) *model {
	m := &model{rand: random, changed: make(chan struct{}), trouble: true}
	switch random.IntN(4) {
	case 0:
		m.noWatchList = errInvalid
	case 1:
		m.neverEnds = true
	}
	m.write() // no server is ever at version 0
	return m
}

// state is what the collection holds at a version: names and the versions of their objects.
func (m *model) state(version int) map[string]string {
	held := map[string]string{}
	for _, c := range m.changes[:version] {
		if c.kind == source.Deleted {
			delete(held, c.name)
		} else {
			held[c.name] = strconv.Itoa(c.version)
		}
	}
	return held
}

// write makes one random change, and sometimes forgets old history.
func (m *model) write() {
	m.mu.Lock()
	defer m.mu.Unlock()
	name := fmt.Sprint("o", m.rand.IntN(12))
	c := change{kind: source.Added, name: name, version: len(m.changes) + 1}
	if _, held := m.state(len(m.changes))[name]; held {
		c.kind = source.Modified
		if m.rand.IntN(3) == 0 {
			c.kind = source.Deleted
		}
	}
	m.changes = append(m.changes, c)
	if m.rand.IntN(20) == 0 {
		m.compacted = len(m.changes)
	}
	close(m.changed)
	m.changed = make(chan struct{})
}

// odds tells whether something goes wrong that goes wrong once in n times.
func (m *model) odds(n int) bool { return m.trouble && m.rand.IntN(n) == 0 }

// refuse is what may go wrong with any request.
func (m *model) refuse() error {
	m.requests = append(m.requests, time.Now())
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
	if err := m.refuse(); err != nil {
		return source.ListResult{}, err
	}
	version, from := len(m.changes), 0
	if opts.Continue != "" {
		fmt.Sscanf(opts.Continue, "%d:%d", &version, &from)
		if version < m.compacted {
			return source.ListResult{}, errExpired
		}
	} else if m.odds(6) {
		version = 1 + m.rand.IntN(version) // a stale server
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
		if err := each(obj(name + "@" + v)); err != nil {
			return source.ListResult{}, err
		}
	}
	return source.ListResult{ResourceVersion: strconv.Itoa(version)}, nil
}

// Watch serves from any version that is not compacted.
func (m *model) Watch(ctx context.Context, opts source.WatchOptions[thing]) (source.Stream[thing], error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.refuse(); err != nil {
		return nil, err
	}
	s := &modelStream{model: m, ctx: ctx, end: time.Now().Add(opts.Timeout)}
	s.at, _ = strconv.Atoi(opts.ResourceVersion)
	switch {
	case opts.SendInitialEvents && m.noWatchList != nil:
		return nil, m.noWatchList
	case opts.SendInitialEvents:
		s.at = len(m.changes)
		if m.odds(6) {
			s.at = 1 + m.rand.IntN(s.at) // a stale server
		}
		held := m.state(s.at)
		for _, name := range slices.Sorted(maps.Keys(held)) { // sorted, so that a seed says all
			s.initial = append(s.initial, added(name+"@"+held[name]))
		}
		s.initial = append(s.initial, initialEnd(strconv.Itoa(s.at)))
		if m.neverEnds {
			s.initial, s.end = s.initial[:len(s.initial)-1], time.Now()
		}
	case s.at < m.compacted:
		return nil, errExpired
	case s.at > len(m.changes):
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
}

func (s *modelStream) Close() error { return nil }

// Next brings one to three events, or waits for a change, the end of the watch, or a minute for a bookmark.
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
			if time.Now().Before(s.end) {
				return append(buf, bookmark(strconv.Itoa(s.at))), nil
			}
		}
	}
}

// poll takes what is there, with what may go wrong in a stream.
func (s *modelStream) poll(buf events) (events, error) {
	m := s.model
	switch {
	case s.silent:
		return buf, nil
	case m.odds(8):
		return buf, []error{io.EOF, io.ErrUnexpectedEOF, errExpired, errBusy, errInternal, errors.New("garbage")}[m.rand.IntN(6)]
	case m.odds(8):
		return append(buf, event{Type: source.Invalid, Err: errors.New("garbage")}), nil
	case len(s.initial) > 0:
		n := min(len(s.initial), 1+m.rand.IntN(3))
		buf, s.initial = append(buf, s.initial[:n]...), s.initial[n:]
		return buf, nil
	case s.at > 0 && m.odds(8):
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
	return ev(c.kind, fmt.Sprintf("%s@%d", c.name, c.version))
}
