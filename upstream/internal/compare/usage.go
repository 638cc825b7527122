package compare

import (
	"net/http"
	"runtime"
	"sync"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/client-go/rest"
)

// Usage is the resource usage of a process since its start.
type Usage struct {
	CPU      time.Duration  // of all threads, in user and kernel mode
	Heap     uint64         // bytes of live objects, after a collection
	PeakRSS  uint64         // bytes
	Requests map[string]int // by verb
}

// calls counts the requests that clients of a configuration send.
type calls struct {
	mu     sync.Mutex
	byVerb map[string]int
}

// count makes the configuration's clients count their requests.
func (c *calls) count(config *rest.Config) {
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			c.add(verb(r))
			return next.RoundTrip(r)
		})
	})
}

func (c *calls) add(verb string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.byVerb == nil {
		c.byVerb = map[string]int{}
	}
	c.byVerb[verb]++
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// requests classifies requests as the API server does.
var requests = request.RequestInfoFactory{APIPrefixes: sets.NewString("api", "apis"), GrouplessAPIPrefixes: sets.NewString("api")}

func verb(r *http.Request) string {
	info, err := requests.NewRequestInfo(r)
	if err != nil {
		return "other"
	}
	return info.Verb
}

// usage measures this process.
func (c *calls) usage() (Usage, error) {
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		return Usage{}, err
	}
	runtime.GC()
	runtime.GC() // frees what finalizers kept
	var mem runtime.MemStats
	runtime.ReadMemStats(&mem)
	c.mu.Lock()
	defer c.mu.Unlock()
	cpu := time.Duration(r.Utime.Nano() + r.Stime.Nano())
	return Usage{CPU: cpu, Heap: mem.HeapAlloc, PeakRSS: uint64(r.Maxrss) * 1024, Requests: c.byVerb}, nil
}
