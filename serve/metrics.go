package serve

import (
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/component-base/metrics/legacyregistry"
)

// serverMetrics are the replica's metrics. Those that an API server has, too, have its names and labels, and those of
// the reviews are upstream's own. No label comes from an object, a name or a caller.
type serverMetrics struct {
	handler     http.Handler
	requests    *prometheus.CounterVec
	duration    *prometheus.HistogramVec
	longRunning *prometheus.GaugeVec
	events      *prometheus.CounterVec
}

// Labels of an API server's metrics.
var (
	resourceLabels = []string{"group", "version", "resource"}
	verbLabels     = []string{"verb", "group", "version", "resource"}
)

// durationBuckets are the bounds that an API server has for durations, as far as answers from memory need them.
var durationBuckets = []float64{0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1, 2, 5, 10, 30, 60}

func newServerMetrics(s *Server) *serverMetrics {
	m := &serverMetrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "apiserver_request_total", Help: "Requests answered here, and not by the API server.",
		}, append([]string{"code"}, verbLabels...)),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "apiserver_request_duration_seconds", Help: "Time to answer a request, without watches.",
			Buckets: durationBuckets,
		}, verbLabels),
		longRunning: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "apiserver_longrunning_requests", Help: "Watches that are open.",
		}, verbLabels),
		events: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "apiserver_watch_events_total", Help: "Events sent to watches.",
		}, resourceLabels),
	}
	own := prometheus.NewRegistry()
	own.MustRegister(m.requests, m.duration, m.longRunning, m.events, stateCollector{s})
	m.handler = promhttp.HandlerFor(prometheus.Gatherers{own, legacyregistry.DefaultGatherer}, promhttp.HandlerOpts{})
	return m
}

// answered counts a request that was answered here.
func (m *serverMetrics) answered(info *request.RequestInfo, verb string, code int, took time.Duration) {
	labels := []string{verb, info.APIGroup, info.APIVersion, info.Resource}
	m.requests.WithLabelValues(append([]string{strconv.Itoa(code)}, labels...)...).Inc()
	if verb != "WATCH" {
		m.duration.WithLabelValues(labels...).Observe(took.Seconds())
	}
}

// coded is a response that remembers its code.
type coded struct {
	http.ResponseWriter
	code int
}

// Unwrap is for http.ResponseController.
func (c *coded) Unwrap() http.ResponseWriter { return c.ResponseWriter }

func (c *coded) WriteHeader(code int) {
	if c.code == 0 {
		c.code = code
	}
	c.ResponseWriter.WriteHeader(code)
}

func (c *coded) Write(p []byte) (int, error) {
	if c.code == 0 {
		c.code = http.StatusOK
	}
	return c.ResponseWriter.Write(p)
}

// stateCollector reads what the server's parts know of themselves.
type stateCollector struct{ *Server }

func describeMetric(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, labels, nil)
}

var (
	forwardedDesc = describeMetric("tidings_serve_forwarded_total", "Requests forwarded to the API server.")
	answeredDesc  = describeMetric("tidings_serve_answered_total", "Requests answered from memory.")
	refusedDesc   = describeMetric("tidings_serve_refused_total",
		"Requests without valid credentials or without the right.")
	limitedDesc = describeMetric("tidings_serve_limited_total", "Requests answered with 429.", "kind")
	revokedDesc = describeMetric("tidings_serve_watches_revoked_total",
		"Watches ended because the right to them was gone.")
	cutDesc      = describeMetric("tidings_serve_watches_cut_total", "Watches cut because their client did not read.")
	readOnlyDesc = describeMetric("apiserver_current_inflight_requests",
		"Requests in flight that are answered here, without watches.", "request_kind")
	inFlightDesc = describeMetric("tidings_serve_in_flight_requests",
		"Requests in flight that are limited for each user.", "kind")
	objectsDesc = describeMetric("apiserver_resource_objects", "Objects held in memory.", "group", "resource")
	memoryDesc  = describeMetric("tidings_serve_memory_bytes", "About what is held in memory.", "resource", "what")
	budgetDesc  = describeMetric("tidings_serve_memory_budget_bytes", "The budget that was set; 0 is none.")
)

// Describe implements prometheus.Collector.
func (stateCollector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		forwardedDesc, answeredDesc, refusedDesc, limitedDesc, revokedDesc, cutDesc, readOnlyDesc, inFlightDesc,
		objectsDesc, memoryDesc, budgetDesc,
	} {
		out <- d
	}
}

// Collect implements prometheus.Collector.
func (c stateCollector) Collect(out chan<- prometheus.Metric) {
	counter := func(d *prometheus.Desc, value int64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(value), labels...)
	}
	gauge := func(d *prometheus.Desc, value int64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(value), labels...)
	}
	counter(answeredDesc, c.counts.answered.Load())
	counter(forwardedDesc, c.counts.forwarded.Load())
	counter(refusedDesc, c.counts.refused.Load())
	counter(revokedDesc, c.counts.revoked.Load())
	counter(cutDesc, c.counts.cut.Load())
	for _, l := range c.inFlight.all() {
		inFlight, refused := l.counts()
		counter(limitedDesc, refused, l.kind)
		gauge(inFlightDesc, inFlight, l.kind)
		if l == &c.inFlight.answered {
			gauge(readOnlyDesc, inFlight, "readOnly")
		}
	}
	gauge(budgetDesc, c.options.MemoryBudget)
	objects := map[schema.GroupResource]int{} // a resource may be served in several versions, and is counted once
	for _, r := range c.resources {
		stats := r.Collection.Stats()
		gauge(memoryDesc, stats.ObjectBytes, r.Name, "objects")
		gauge(memoryDesc, stats.JournalBytes, r.Name, "journal")
		if found := r.Found(); found != nil {
			objects[found.GroupResource()] = max(objects[found.GroupResource()], stats.Objects)
		}
	}
	for r, n := range objects {
		gauge(objectsDesc, int64(n), r.Group, r.Resource)
	}
}
