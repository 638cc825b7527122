package manager

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/pprof"
	"os"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/tidings/tidings/controller"
	"github.com/tidings/tidings/metrics"
)

// serve serves /healthz, /readyz and /metrics, and /debug/pprof if configured, until the returned function is called.
func (p *process) serve(listener net.Listener) (stop func()) {
	server := &http.Server{Handler: p.handler(), ReadHeaderTimeout: 10 * time.Second}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(listener) // ends with Shutdown or Close
	}()
	return func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if server.Shutdown(ctx) != nil {
			_ = server.Close()
		}
		<-done
	}
}

func (p *process) handler() http.Handler {
	mux := http.NewServeMux()
	health := p.manager.Handler()
	mux.Handle("/healthz", health)
	mux.Handle("/readyz", health)
	mux.Handle("/metrics", promhttp.HandlerFor(p.registry(), promhttp.HandlerOpts{}))
	if p.opts.Profiling {
		mux.HandleFunc("/debug/pprof/", pprof.Index)
		mux.HandleFunc("/debug/pprof/cmdline", programName)
		mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
		mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
		mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	}
	return mux
}

// programName replaces pprof's command line. It returns only the program's name, because flags can contain credentials.
func programName(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = io.WriteString(w, os.Args[0]) // if this fails, the client has gone
}

func (p *process) registry() *prometheus.Registry {
	sources := metrics.Sources{Informers: p.factory.Status, Controllers: p.manager.Stats}
	if p.elector != nil {
		sources.Elections = func() []controller.LeaseStats { return []controller.LeaseStats{p.elector.Stats()} }
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(metrics.NewCollector(sources), collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return registry
}
