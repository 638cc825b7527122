// Package server is an API server of one collection of pods that has encoded all it will ever send before the first
// request comes, so that what a benchmark measures is the client.
//
// It answers a watch with initial events, as API servers do by default, and then sends what it is told to: see Phase.
package server

import (
	"bufio"
	"encoding/json"
	"fmt"
	"iter"
	"net/http"
	"sync"
	"time"
)

// Phase is something that a server does on its watch when it is asked to.
type Phase string

const (
	// Relist ends the watch because its version has expired. The client starts anew and gets the same pods; after
	// them comes one event.
	Relist Phase = "relist"
	// Burst sends events as fast as the client takes them, each for another pod, in random order.
	Burst Phase = "burst"
	// BurstSorted does so in the order of the list, in which the pods of a workload follow each other.
	BurstSorted Phase = "burst-sorted"
	// BurstAgain does what Burst does, with newer events.
	BurstAgain Phase = "burst-again"
	// Rate sends 1,000 events a second, each on its own.
	Rate Phase = "rate"
	// Churn creates, changes and deletes pods of which none is like one before.
	Churn Phase = "churn"
)

// pause is the time between two events of Rate.
const pause = time.Millisecond

// Config says how much a server has to send, in pods or events.
type Config struct {
	Encoding Encoding
	Pods     int // of the initial list
	Burst    int // at most Pods
	Rate     int // at most Pods
	Churn    int // about
	// Generation is how many pods come together in Churn, with workloads, nodes and images of their own. Five times
	// as many are alive at most.
	Generation int
}

// Plan is what a client has to expect.
type Plan struct {
	Pods int // of the initial list
	// PodBytes is the size of all their events.
	PodBytes int
	// Last is the resource version of the last event of each phase.
	Last map[Phase]uint64
}

// Server is an http.Handler with three resources besides the pods: /bench/plan gives the Plan, a POST to
// /bench/phase/{phase} starts a phase on every open watch, and /bench/sent tells when each event of Rate was sent.
type Server struct {
	corpus *corpus
	mux    *http.ServeMux

	mu        sync.Mutex
	watches   map[chan Phase]bool
	relisting bool    // the next watch gets a marker behind its initial events
	sent      []int64 // Unix times in nanoseconds; written by the watch that runs Rate
}

// New returns a server. It takes some seconds for each 100,000 pods and events.
func New(c Config) (*Server, error) {
	corpus, err := newCorpus(c)
	if err != nil {
		return nil, err
	}
	s := &Server{corpus: corpus, mux: http.NewServeMux(), watches: map[chan Phase]bool{}}
	s.mux.HandleFunc("GET /api/v1/pods", s.serveWatch)
	s.mux.HandleFunc("GET /bench/plan", func(w http.ResponseWriter, _ *http.Request) { reply(w, corpus.plan) })
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
	if _, ok := s.corpus.plan.Last[phase]; !ok {
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
func (s *Server) serveWatch(w http.ResponseWriter, r *http.Request) {
	if query := r.URL.Query(); query.Get("watch") != "1" && query.Get("watch") != "true" {
		http.Error(w, "this server has no lists, only watches with initial events", http.StatusNotImplemented)
		return
	}
	phases := s.register()
	defer s.unregister(phases)
	w.Header().Set("Content-Type", s.corpus.encoding.contentType())
	out := &stream{w: bufio.NewWriterSize(w, 64<<10), flush: http.NewResponseController(w).Flush}
	if r.URL.Query().Get("sendInitialEvents") == "true" {
		out.send(s.corpus.initial.all())
		if s.takeRelisting() {
			out.send(s.corpus.marker.all())
		}
	}
	out.end()
	for out.err == nil {
		select {
		case phase := <-phases:
			if s.run(out, phase); phase == Relist {
				return
			}
		case <-r.Context().Done():
			return
		}
	}
}

func (s *Server) run(out *stream, phase Phase) {
	switch phase {
	case Relist:
		out.write(s.corpus.expired)
	case Rate:
		s.sendSlowly(out, s.corpus.phases[Rate])
	default:
		out.send(s.corpus.phases[phase])
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
