// Package server is an API server of one collection that has encoded all it will ever send before the first
// request comes, so that what a benchmark measures is the client.
//
// It answers a watch with initial events, as API servers do by default, and then sends what it is told to: see Phase.
// A watch that has nothing to send gets a bookmark every second. A client that was here before can resume its watch: what it asks
// for first, the cluster's identity and the object that was changed last, is there too.
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

// Phase is something that a server does on its watch when it is asked to.
type Phase string

const (
	// Relist ends the watch because its version has expired. The client starts anew and gets the same pods; after
	// them comes one event.
	Relist Phase = "relist"
	// Burst sends events as fast as the client takes them, each for another object, in random order. What changes is
	// the status, or what else is written most often.
	Burst Phase = "burst"
	// BurstSorted does so in the order of the list, in which the pods of a workload follow each other.
	BurstSorted Phase = "burst-sorted"
	// Edits is a burst of changes of labels and of specs.
	Edits Phase = "edits"
	// BurstAgain does what Burst does, with newer events.
	BurstAgain Phase = "burst-again"
	// Rate sends 1,000 events a second, each on its own.
	Rate Phase = "rate"
	// Churn creates, changes and deletes pods of which none is like one before.
	Churn Phase = "churn"
)

const (
	// pause is the time between two events of Rate.
	pause = time.Millisecond
	// bookmarkEvery is how often an idle watch gets a bookmark: sixty times as often as from an API server.
	bookmarkEvery = time.Second
)

// Config says what a server has to send, and how much of it in objects or events.
type Config struct {
	Encoding Encoding
	Corpus   corpus.Name
	Objects  int // of the initial list
	// Parts divides the objects over so many namespaces, each of which is listed and watched alone. There are no
	// phases then. 0 makes one collection of all.
	Parts int
	// OnTheFly makes the pods of the initial list while it is sent, so that there may be more of them than memory holds. Of the
	// phases there is only Rate then.
	OnTheFly bool
	Burst    int // at most Objects
	Rate     int
	Churn    int // about; for pods only
	// Day makes the phases of a day, with about so many changes of pods besides those that come and go; for pods only, and without
	// other phases.
	Day int
	// Generation is how many pods come together in Churn, with workloads, nodes and images of their own. Five times
	// as many are alive at most.
	Generation int
}

// Plan is what a client has to expect.
type Plan struct {
	Objects int // of the initial list
	Parts   int
	// Bytes is the size of all their events.
	Bytes int
	// Last is the resource version of the last event of each phase, and Events how many there are with the versions
	// up to it. Phases come in the order of their versions, and may be left out.
	Last   map[Phase]uint64
	Events map[Phase]int
}

// Server is an http.Handler with three resources besides the objects: /bench/plan gives the Plan, a POST to
// /bench/phase/{phase} starts a phase on every open watch, and /bench/sent tells when each event of Rate was sent.
type Server struct {
	content *content
	mux     *http.ServeMux

	mu        sync.Mutex
	watches   map[chan Phase]bool
	relisting bool    // the next watch gets a marker behind its initial events
	sent      []int64 // Unix times in nanoseconds; written by the watch that runs Rate
}

// New returns a server. It takes some seconds for each 100,000 objects and events.
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
	_ = json.NewEncoder(w).Encode(body) // a client that is gone needs no answer
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

// serveWatch sends the initial events if the client wants them, then one phase after the other.
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

// sendSlowly keeps to the rate over all: after an event that was late the next ones follow at once.
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

// stream is the body of a watch. After an error it takes no more.
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

// end sends what is still in the buffers.
func (s *stream) end() {
	if s.err == nil {
		s.err = s.w.Flush()
	}
	if s.err == nil {
		s.err = s.flush()
	}
}
