package promises_test

import (
	"context"
	"fmt"
	"hash/fnv"
	"io"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/tidings/tidings"
	"github.com/tidings/tidings/internal/testseed"
	"github.com/tidings/tidings/source"
)

// oddPod is a pod of an oddServer, with all the numbers that a server could make its version of.
type oddPod struct {
	uid      types.UID
	contents int
	seq      int // of the server's last write to it
	writes   int // of it
}

// numbers is how a server numbers collections and pods. The collection has at least one pod when pods is called.
type numbers struct {
	name string
	list func(s *oddServer) string
	pod  func(s *oddServer, p oddPod) string
	// blind says that a version does not tell the server where a watch is to begin: it brings what comes.
	blind bool
	// plausible says that a new pod looks like a repeated event from before the last list, until a list contradicts itself.
	plausible bool
}

func textOf(n int) string { return strconv.Itoa(n) }

func bySeq(_ *oddServer, p oddPod) string    { return textOf(p.seq) }
func byWrites(_ *oddServer, p oddPod) string { return textOf(p.writes) }

func constant(version string) func(*oddServer) string {
	return func(*oddServer) string { return version }
}

// greatest returns the greatest version of a pod, by an order.
func greatest(less func(a, b string) bool, of func(*oddServer, oddPod) string) func(*oddServer) string {
	return func(s *oddServer) (version string) {
		for _, p := range s.pods {
			if v := of(s, p); version == "" || less(version, v) {
				version = v
			}
		}
		return version
	}
}

func textually(a, b string) bool { return a < b }
func numerically(a, b string) bool {
	return len(a) < len(b) || len(a) == len(b) && a < b
}

// odd is every kind of numbering.
var odd = []numbers{
	{name: "as it should be", list: func(s *oddServer) string { return textOf(s.seq) }, pod: bySeq},
	{name: "leading zeros", list: func(s *oddServer) string { return fmt.Sprintf("%09d", s.seq) }, pod: func(_ *oddServer, p oddPod) string { return fmt.Sprintf("%09d", p.seq) }},
	{name: "more than 64 bits", list: func(s *oddServer) string { return fmt.Sprintf("9999999999999999999999%06d", s.seq) },
		pod: func(_ *oddServer, p oddPod) string { return fmt.Sprintf("9999999999999999999999%06d", p.seq) }},
	{name: "constant list", list: constant("1"), pod: bySeq, blind: true},
	{name: "constant list, greater than all", list: constant("1000000"), pod: bySeq, blind: true},
	{name: "constant list that is no number", list: constant("latest"), pod: bySeq, blind: true},
	{name: "list 0", list: constant("0"), pod: bySeq, blind: true},
	{name: "list 0, pods by writes", list: constant("0"), pod: byWrites, blind: true},
	{name: "greatest pod by text", list: greatest(textually, bySeq), pod: bySeq, blind: true},
	{name: "greatest pod", list: greatest(numerically, bySeq), pod: bySeq, blind: true},
	{name: "pods by writes, greatest pod", list: greatest(numerically, byWrites), pod: byWrites, blind: true, plausible: true},
	{name: "pods by writes, list by seq", list: func(s *oddServer) string { return textOf(s.seq) }, pod: byWrites},
	{name: "pods by writes, constant list", list: constant("1"), pod: byWrites, blind: true},
	{name: "number of pods", list: func(s *oddServer) string { return textOf(len(s.pods)) }, pod: bySeq, blind: true},
	{name: "no versions at all", list: constant(""), pod: func(*oddServer, oddPod) string { return "" }, blind: true},
	{name: "no version of lists", list: constant(""), pod: bySeq, blind: true},
	{name: "no versions of pods", list: func(s *oddServer) string { return textOf(s.seq) }, pod: func(*oddServer, oddPod) string { return "" }},
	{name: "downwards", list: func(s *oddServer) string { return textOf(1_000_000 - s.seq) }, pod: func(_ *oddServer, p oddPod) string { return textOf(1_000_000 - p.seq) }},
	{name: "letters", list: func(s *oddServer) string { return fmt.Sprint("v", s.seq) }, pod: func(_ *oddServer, p oddPod) string { return fmt.Sprint("v", p.seq) }},
	{name: "hashes", list: func(s *oddServer) string { return hash(s.seq) }, pod: func(_ *oddServer, p oddPod) string { return hash(p.seq) }},
	{name: "negative", list: func(s *oddServer) string { return textOf(-s.seq) }, pod: func(_ *oddServer, p oddPod) string { return textOf(-p.seq) }},
	{name: "the time", list: func(*oddServer) string { return textOf(int(time.Now().UnixNano())) }, pod: bySeq, blind: true},
	{name: "anything", list: func(s *oddServer) string { return textOf(1 + s.rand.IntN(1000)) }, pod: bySeq, blind: true},
	{name: "three behind", list: func(s *oddServer) string { return textOf(max(1, s.seq-3)) }, pod: bySeq, blind: true},
	{name: "fractions", list: func(s *oddServer) string { return fmt.Sprint(s.seq, ".5") }, pod: func(_ *oddServer, p oddPod) string { return fmt.Sprint(p.seq, ".5") }},
}

func hash(n int) string {
	h := fnv.New64()
	fmt.Fprint(h, n)
	return fmt.Sprintf("%x", h.Sum64())
}

// oddServer is a server with one of the numberings.
type oddServer struct {
	numbers
	mu      sync.Mutex
	rand    *rand.Rand
	seq     int
	uids    int
	pods    map[string]oddPod
	watches map[*oddWatch]struct{}
	handed  map[string]int // the last seq at which a list had this version
	log     []oddEvent
	down    bool
	lost    bool // watches from before now are refused with 410
}

type oddEvent struct {
	seq   int
	event source.Event[pod]
}

func newOddServer(n numbers, random *rand.Rand) *oddServer {
	return &oddServer{numbers: n, rand: random, pods: map[string]oddPod{}, watches: map[*oddWatch]struct{}{}, handed: map[string]int{}}
}

func (s *oddServer) object(name string, p oddPod) pod {
	o := newPod("a", name)
	o.UID, o.ResourceVersion, o.Generation = p.uid, s.pod(s, p), int64(p.contents)
	return o
}

// change creates, updates or deletes a random pod, or one with a given name if it is not empty.
func (s *oddServer) change(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if name == "" {
		name = fmt.Sprint("p", s.rand.IntN(6))
	}
	s.seq++
	p, exists := s.pods[name]
	kind := source.Modified
	switch {
	case exists && s.rand.IntN(3) == 0:
		kind = source.Deleted
	case !exists:
		s.uids++
		kind, p = source.Added, oddPod{uid: types.UID(fmt.Sprint("uid-", s.uids))}
	}
	p.seq, p.writes, p.contents = s.seq, p.writes+1, s.rand.IntN(1000)
	s.pods[name] = p
	o := s.object(name, p)
	if kind == source.Deleted {
		delete(s.pods, name)
	}
	s.log = append(s.log, oddEvent{s.seq, source.Event[pod]{Type: kind, Object: o, ResourceVersion: o.ResourceVersion}})
	for w := range s.watches {
		w.wake()
	}
}

// cut ends all watches, and refuses connections until up.
func (s *oddServer) cut() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.down = true
	for w := range s.watches {
		w.broken = true
		w.wake()
	}
}

func (s *oddServer) up(lost bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.down, s.lost = false, lost
}

// restart begins the numbers anew, with the present pods.
func (s *oddServer) restart() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seq, s.log, s.handed = 0, nil, map[string]int{}
	for _, name := range slices.Sorted(maps.Keys(s.pods)) {
		p := s.pods[name]
		s.seq++
		p.seq, p.writes = s.seq, 1
		s.pods[name] = p
	}
}

func (s *oddServer) List(_ context.Context, opts source.ListOptions[pod], each func(pod) error) (source.ListResult, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.down {
		return source.ListResult{}, syscall.ECONNREFUSED
	}
	if opts.Limit != 1 {
		s.lost = false
	}
	version := s.list(s)
	s.handed[version] = s.seq
	for _, name := range slices.Sorted(maps.Keys(s.pods)) {
		if err := each(s.object(name, s.pods[name])); err != nil {
			return source.ListResult{}, err
		}
		if opts.Limit == 1 {
			break
		}
	}
	return source.ListResult{ResourceVersion: version}, nil
}

func (s *oddServer) Watch(ctx context.Context, opts source.WatchOptions[pod]) (source.Stream[pod], error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.down:
		return nil, syscall.ECONNREFUSED
	case opts.SendInitialEvents:
		return nil, invalid("sendInitialEvents: forbidden")
	case s.lost:
		return nil, expired()
	}
	w := &oddWatch{server: s, ctx: ctx, at: s.seq, woken: make(chan struct{}, 1), end: time.Now().Add(opts.Timeout)}
	if at, known := s.handed[opts.ResourceVersion]; known && !s.blind {
		w.at = at
	} else if !s.blind {
		for _, e := range s.log { // it may be the version of an event
			if e.event.ResourceVersion == opts.ResourceVersion {
				w.at = e.seq
			}
		}
	}
	s.watches[w] = struct{}{}
	return w, nil
}

type oddWatch struct {
	server *oddServer
	ctx    context.Context
	at     int
	woken  chan struct{}
	end    time.Time
	broken bool
}

func (w *oddWatch) wake() {
	select {
	case w.woken <- struct{}{}:
	default:
	}
}

func (w *oddWatch) Next(buf []source.Event[pod]) ([]source.Event[pod], error) {
	for {
		w.server.mu.Lock()
		for _, e := range w.server.log {
			if e.seq > w.at {
				w.at = e.seq
				buf = append(buf, e.event)
			}
		}
		broken := w.broken
		w.server.mu.Unlock()
		switch {
		case len(buf) > 0:
			return buf, nil
		case broken:
			return buf, io.ErrUnexpectedEOF
		case !time.Now().Before(w.end):
			return buf, io.EOF
		}
		select {
		case <-w.woken:
		case <-time.After(time.Until(w.end)):
		case <-w.ctx.Done():
			return buf, w.ctx.Err()
		}
	}
}

func (w *oddWatch) Close() error {
	w.server.mu.Lock()
	defer w.server.mu.Unlock()
	delete(w.server.watches, w)
	return nil
}

// TestOddNumbering runs an informer against servers of all kinds, with cuts, lost history,
// restarts, and changes while it is disconnected.
func TestOddNumbering(t *testing.T) {
	for _, n := range odd {
		t.Run(n.name, func(t *testing.T) {
			testseed.Each(t, 4, func(t *testing.T, seed uint64) {
				synctest.Test(t, func(t *testing.T) { followOdd(t, newOddServer(n, rand.New(rand.NewPCG(seed, 1)))) })
			})
		})
	}
}

func followOdd(t *testing.T, s *oddServer) {
	for written := false; !written; { // until versions by writes differ from that of a constant list
		s.change("")
		for _, p := range s.pods {
			written = written || p.writes > 2
		}
	}
	inf, err := tidings.NewInformer[pod](s, tidings.InformerOptions[pod]{Name: "pods"})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	if err := inf.Start(ctx); err != nil {
		t.Fatal(err)
	}
	defer inf.Stop(context.WithoutCancel(ctx))
	follow := func(what string, within time.Duration) {
		t.Helper()
		time.Sleep(within)
		synctest.Wait()
		if s.plausible && !inf.Status().Parts[0].Reflector.UnprovenVersions {
			return
		}
		if err := s.compare(inf); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	follow("at first", time.Second)
	for round := range 6 {
		s.change(fmt.Sprint("new", round))
		follow("with a new pod", 2*time.Minute)
		for range 10 {
			s.change("")
			time.Sleep(time.Second)
		}
		follow("while watching", 2*time.Minute)
		s.cut()
		for range 4 {
			s.change("")
		}
		if round == 4 {
			s.restart()
		}
		// Without a history, a watch misses what happened before it. That cannot be known unless the watch is refused or
		// lists have shown that their versions prove nothing.
		lost := round%2 == 0 || s.blind && !inf.Status().Parts[0].Reflector.UnprovenVersions
		s.up(lost)
		follow(fmt.Sprintf("after a cut, history lost %v, restarted %v", lost, round == 4), 2*time.Minute)
	}
}

// compare returns how the store differs from the server.
func (s *oddServer) compare(inf *tidings.SharedInformer[pod]) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	want, got := map[string]string{}, map[string]string{}
	for name, p := range s.pods {
		want[name] = fmt.Sprint(p.uid, " ", p.contents)
	}
	for key, o := range inf.Snapshot().All() {
		got[key.Name] = fmt.Sprint(o.UID, " ", o.Generation)
	}
	if !maps.Equal(got, want) {
		return fmt.Errorf("the store has %v, the server %v", got, want)
	}
	return nil
}
