// Package server is an API server with one collection. It encodes everything that it will send
// before the first request, so that a benchmark measures only the client.
//
// It answers a watch with initial events, as API servers do by default, and then sends what it is
// told to: see Phase. An idle watch gets a bookmark every second. A returning client can resume its
// watch: what it requests first, the cluster's identity and the object that was changed last, is
// served too.
package server

import (
	"bufio"
	"encoding/json"
	"fmt"
	"iter"
	"net/http"
	"sync"
	"time"

	"github.com/tidings/tidings/bench/internal/corpus"
)

// Phase is something that a server does on its watches when it is told to.
type Phase string

const (
	// Relist ends the watch because its version has expired. The client starts over and gets the
	// same pods, followed by one event.
	Relist Phase = "relist"
	// Burst sends events as fast as the client consumes them, each for a different object, in
	// random order. They change the status, or what else is written most often.
	Burst Phase = "burst"
	// Sustained is like Burst, but long enough for a client to collect its garbage. Objects change more than once.
	Sustained Phase = "sustained"
	// Busiest is like Sustained, but changes only a twentieth of the objects, if these are enough, again and again.
	Busiest Phase = "busiest"
	// BurstSorted is like Burst, in list order, in which the pods of a workload follow each other.
	BurstSorted Phase = "burst-sorted"
	// Edits is a burst of changes of labels and of specs.
	Edits Phase = "edits"
	// BurstAgain is like Burst, with newer events.
	BurstAgain Phase = "burst-again"
	// Rate sends 1,000 events per second, each on its own.
	Rate Phase = "rate"
	// Churn creates, changes and deletes pods, none of which is like an earlier one.
	Churn Phase = "churn"
)

const (
	// pause is the time between two events of Rate.
	pause = time.Millisecond
	// bookmarkEvery is how often an idle watch gets a bookmark: sixty times as often as from an API server.
	bookmarkEvery = time.Second
)

// Config configures the content of a server, in numbers of objects or events.
type Config struct {
	Encoding Encoding
	Corpus   corpus.Name
	Objects  int // number in the initial list
	// Parts divides the objects among this many namespaces, each of which is listed and watched on
	// its own, without phases. 0 makes one collection.
	Parts int
	// OnTheFly generates the pods of the initial list while sending it, so that there may be more
	// than fit into memory. The only phase is then Rate.
	OnTheFly bool
	Burst    int // at most Objects
	// Sustained is longer than Burst; the objects change in the same order again and again. With
	// few of them it must not be more than Objects: a handler that lags behind by that many events
	// coalesces.
	Sustained int
	Busiest   int
	Rate      int
	Churn     int // approximate; for pods only
	// Day adds the phases of a day, with about this many changes of pods besides those that are
	// created and deleted; for pods only, and without other phases.
	Day int
	// Generation is the number of pods that are created together in Churn, with their own
	// workloads, nodes and images. At most five times as many are alive.
	Generation int
}

// Plan is what a client should expect.
type Plan struct {
	Objects int // number in the initial list
	Parts   int
	// Bytes is the size of all their events.
	Bytes int
	// Last is the resource version of the last event of each phase, and Events the number of events
	// up to it. Phases are ordered by version, and may be skipped.
	Last   map[Phase]uint64
	Events map[Phase]int
}

// Server is an http.Handler with three resources besides the objects: /bench/plan returns the Plan, a POST to
// /bench/phase/{phase} starts a phase on every open watch, and /bench/sent returns when each event of Rate was sent.
type Server struct {
	content *content
	mux     *http.ServeMux

	mu        sync.Mutex
	watches   map[chan Phase]bool
	relisting bool    // the next watch gets a marker after its initial events
	sent      []int64 // Unix times in nanoseconds; written by the watch that runs Rate
}

// New returns a server. It takes some seconds per 100,000 objects and events.
func New(c Config) (*Server, error) {
	content, err := newContent(c)
	if err != nil {
		return nil, err
	}
	s := &Server{content: content, mux: http.NewServeMux(), watches: map[chan Phase]bool{}}
	for namespace := range content.initial {
		s.mux.HandleFunc("GET "+c.Corpus.Kind().Path(namespace), func(w http.ResponseWriter, r *http.Request) { s.serveWatch(w, r, namespace) })
	}
	s.mux.HandleFunc("GET /api/v1/namespaces/kube-system", serveCluster)
	s.mux.HandleFunc("GET /bench/plan", func(w http.ResponseWriter, _ *http.Request) { reply(w, content.plan) })
	s.mux.HandleFunc("GET /bench/sent", s.serveSent)
	s.mux.HandleFunc("POST /bench/phase/{phase}", s.servePhase)
	return s, nil
}

func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.mux.ServeHTTP(w, r) }

func reply(w http.ResponseWriter, body any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(body) // a client that has gone needs no answer
}

func (s *Server) serveSent(w http.ResponseWriter, _ *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	reply(w, s.sent)
}

func (s *Server) servePhase(w http.ResponseWriter, r *http.Request) {
	phase := Phase(r.PathValue("phase"))
	if _, ok := s.content.plan.Last[phase]; !ok {
		http.Error(w, fmt.Sprintf("there is no phase %q", phase), http.StatusNotFound)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.watches) == 0 {
		http.Error(w, "nobody watches", http.StatusConflict)
		return
	}
	s.relisting = phase == Relist
	for watch := range s.watches {
		watch <- phase
	}
}

// serveWatch sends the initial events if requested, then one phase after the other.
func (s *Server) serveWatch(w http.ResponseWriter, r *http.Request, namespace string) {
	if query := r.URL.Query(); query.Get("watch") != "1" && query.Get("watch") != "true" {
		s.serveNewest(w, r)
		return
	}
	phases := s.register()
	defer s.unregister(phases)
	w.Header().Set("Content-Type", s.content.encoding.ContentType())
	out := &stream{w: bufio.NewWriterSize(w, 64<<10), flush: http.NewResponseController(w).Flush}
	version := uint64(firstVersion)
	if r.URL.Query().Get("sendInitialEvents") == "true" {
		out.send(s.content.initial[namespace])
		if s.takeRelisting() {
			out.send(s.content.marker.all())
			version = s.content.plan.Last[Relist]
		}
	}
	out.end()
	idle := time.NewTicker(bookmarkEvery)
	defer idle.Stop()
	for out.err == nil {
		select {
		case phase := <-phases:
			if s.run(out, phase); phase == Relist {
				return
			}
			version = max(version, s.content.plan.Last[phase])
		case <-idle.C:
			s.sendBookmark(out, version)
		case <-r.Context().Done():
			return
		}
	}
}

func (s *Server) sendBookmark(out *stream, version uint64) {
	frame, err := s.content.bookmark(version)
	if err != nil {
		panic(err) // an empty object always encodes
	}
	out.write(frame)
	out.end()
}

func (s *Server) run(out *stream, phase Phase) {
	switch phase {
	case Relist:
		out.write(s.content.expired)
	case Rate:
		s.sendSlowly(out, s.content.phases[Rate])
	default:
		out.send(s.content.phases[phase])
	}
	out.end()
}

// sendSlowly keeps the average rate: if an event was late, the next ones follow at once.
func (s *Server) sendSlowly(out *stream, events iter.Seq[[]byte]) {
	s.note(nil)
	due := time.Now()
	for frame := range events {
		time.Sleep(time.Until(due))
		due = due.Add(pause)
		s.note(append(s.sent, time.Now().UnixNano()))
		if out.write(frame); out.err != nil {
			return
		}
		out.end()
	}
}

func (s *Server) note(sent []int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sent = sent
}

func (s *Server) register() chan Phase {
	phases := make(chan Phase, 1)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.watches[phases] = true
	return phases
}

func (s *Server) unregister(phases chan Phase) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.watches, phases)
}

func (s *Server) takeRelisting() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	was := s.relisting
	s.relisting = false
	return was
}

// stream is the body of a watch. After an error it discards everything.
type stream struct {
	w     *bufio.Writer
	flush func() error
	err   error
}

func (s *stream) write(frame []byte) {
	if s.err == nil {
		_, s.err = s.w.Write(frame)
	}
}

func (s *stream) send(events iter.Seq[[]byte]) {
	for frame := range events {
		if s.write(frame); s.err != nil {
			return
		}
	}
}

// end flushes the buffers.
func (s *stream) end() {
	if s.err == nil {
		s.err = s.w.Flush()
	}
	if s.err == nil {
		s.err = s.flush()
	}
}
