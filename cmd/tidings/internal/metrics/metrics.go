// Package metrics shows informers, queues and controllers to Prometheus.
//
// All but the histograms is read when it is asked for, from the snapshots of state that the components give, so
// nothing is counted twice and nothing is paid for between two scrapes.
package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tidings/tidings"
	"github.com/tidings/tidings/controller"
)

// Sources is where the figures come from. The functions are called at each scrape, from any goroutine.
type Sources struct {
	Informers   func() []tidings.Status
	Controllers func() []controller.Stats
	// Leading tells whether this process acts; nil where there is no election.
	Leading func() bool
}

// Collector is a prometheus.Collector of all figures but the histograms.
type Collector struct{ sources Sources }

// NewCollector returns a collector.
func NewCollector(sources Sources) *Collector { return &Collector{sources} }

// Describe sends nothing: which metrics there are depends on the informers, so the collector is an unchecked one.
func (c *Collector) Describe(chan<- *prometheus.Desc) {}

// Collect sends the present figures.
func (c *Collector) Collect(out chan<- prometheus.Metric) {
	for _, st := range c.sources.Informers() {
		collectInformer(out, st)
	}
	for _, st := range c.sources.Controllers() {
		collectController(out, st)
	}
	if c.sources.Leading != nil {
		leading.send(out, toFloat(c.sources.Leading()))
	}
}

// metric is a metric's description with its kind.
type metric struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
}

func gauge(name, help string, labels ...string) metric {
	return metric{prometheus.NewDesc(name, help, labels, nil), prometheus.GaugeValue}
}

func counter(name, help string, labels ...string) metric {
	return metric{prometheus.NewDesc(name, help, labels, nil), prometheus.CounterValue}
}

func (m metric) send(out chan<- prometheus.Metric, value float64, labels ...string) {
	out <- prometheus.MustNewConstMetric(m.desc, m.kind, value, labels...)
}

// What an informer shows. A part is a namespace of its scope; "" stands for all.
var (
	objects   = gauge("tidings_informer_objects", "Objects in the store.", "resource", "scope")
	synced    = gauge("tidings_informer_synced", "1 once the initial list is in the store.", "resource", "scope")
	stale     = gauge("tidings_informer_stale", "1 while the server has not been heard of for too long.", "resource", "scope")
	age       = gauge("tidings_informer_age_seconds", "Time since the server was last heard of.", "resource", "scope")
	queued    = gauge("tidings_informer_queue_length", "Changes that wait to be stored.", "resource", "scope")
	mutations = counter("tidings_informer_mutations_total", "Times that somebody was caught writing to a cached object.", "resource", "scope")

	events    = counter("tidings_informer_events_total", "Changes that watches brought.", "resource", "scope", "namespace")
	bookmarks = counter("tidings_informer_bookmarks_total", "Bookmarks that watches brought.", "resource", "scope", "namespace")
	invalid   = counter("tidings_informer_invalid_events_total", "Events that could not be understood and were skipped.", "resource", "scope", "namespace")
	lists     = counter("tidings_informer_lists_total", "Whole collections read.", "resource", "scope", "namespace")
	relists   = counter("tidings_informer_relists_total", "Whole collections read again.", "resource", "scope", "namespace")
	watches   = counter("tidings_informer_watches_total", "Watches opened.", "resource", "scope", "namespace")
	failures  = counter("tidings_informer_errors_total", "Requests and streams that failed.", "resource", "scope", "namespace")
	bytes     = counter("tidings_informer_bytes_total", "Bytes of list and watch bodies read.", "resource", "scope", "namespace")
	decoded   = counter("tidings_informer_decoded_objects_total", "Objects decoded.", "resource", "scope", "namespace")

	pending   = gauge("tidings_informer_handler_pending", "Changes that a handler has not been told of.", "resource", "scope", "handler")
	lag       = gauge("tidings_informer_handler_lag_seconds", "How long the oldest of them has waited.", "resource", "scope", "handler")
	delivered = counter("tidings_informer_handler_delivered_total", "Changes that a handler was told of.", "resource", "scope", "handler")
	panics    = counter("tidings_informer_handler_panics_total", "Calls of a handler that panicked.", "resource", "scope", "handler")
)

func collectInformer(out chan<- prometheus.Metric, st tidings.Status) {
	resource, scope := st.Resource, st.Scope
	objects.send(out, float64(st.Objects), resource, scope)
	synced.send(out, toFloat(st.Synced), resource, scope)
	stale.send(out, toFloat(st.Stale), resource, scope)
	age.send(out, st.Age.Seconds(), resource, scope)
	queued.send(out, float64(st.Queue.Length), resource, scope)
	mutations.send(out, float64(st.Mutations), resource, scope)
	for _, p := range st.Parts {
		r := p.Reflector
		events.send(out, float64(r.Events), resource, scope, p.Namespace)
		bookmarks.send(out, float64(r.Bookmarks), resource, scope, p.Namespace)
		invalid.send(out, float64(r.Invalid), resource, scope, p.Namespace)
		lists.send(out, float64(r.Lists), resource, scope, p.Namespace)
		relists.send(out, float64(r.Relists), resource, scope, p.Namespace)
		watches.send(out, float64(r.Watches), resource, scope, p.Namespace)
		failures.send(out, float64(r.Errors), resource, scope, p.Namespace)
		bytes.send(out, float64(p.Source.Bytes), resource, scope, p.Namespace)
		decoded.send(out, float64(p.Source.Objects), resource, scope, p.Namespace)
	}
	for name, h := range byName(st.Handlers) {
		pending.send(out, float64(h.Pending), resource, scope, name)
		lag.send(out, h.Lag.Seconds(), resource, scope, name)
		delivered.send(out, float64(h.Delivered), resource, scope, name)
		panics.send(out, float64(h.Panics), resource, scope, name)
	}
}

// byName adds up handlers of one name, because a metric must not appear twice.
func byName(handlers []tidings.HandlerStatus) map[string]tidings.HandlerStatus {
	sum := map[string]tidings.HandlerStatus{}
	for _, h := range handlers {
		s := sum[h.Name]
		s.Pending += h.Pending
		s.Lag = max(s.Lag, h.Lag)
		s.Delivered += h.Delivered
		s.Panics += h.Panics
		sum[h.Name] = s
	}
	return sum
}

// What a controller and its queue show. The names of the queue's are those that every Kubernetes component has.
var (
	depth          = gauge("workqueue_depth", "Items that wait.", "name")
	adds           = counter("workqueue_adds_total", "Items added.", "name")
	retries        = counter("workqueue_retries_total", "Items added again with a delay.", "name")
	unfinished     = gauge("workqueue_unfinished_work_seconds", "Sum of the times that items in work have been so.", "name")
	longestRunning = gauge("workqueue_longest_running_processor_seconds", "The greatest of these times.", "name")

	reconciles   = counter("tidings_reconcile_total", "Reconciles that have ended.", "controller")
	errors       = counter("tidings_reconcile_errors_total", "Reconciles that failed, by how.", "controller", "kind")
	workers      = gauge("tidings_controller_workers", "Workers.", "controller")
	busy         = gauge("tidings_controller_busy_workers", "Workers that reconcile.", "controller")
	gateWaits    = counter("tidings_controller_gate_waits_total", "Times that a key waited for a cache to see the key's own writes.", "controller")
	gateTimeouts = counter("tidings_controller_gate_timeouts_total", "Times that it waited in vain.", "controller")

	leading = gauge("leader_election_master_status", "1 while this process holds the lease.")
)

func collectController(out chan<- prometheus.Metric, st controller.Stats) {
	depth.send(out, float64(st.Queue.Depth), st.Name)
	adds.send(out, float64(st.Queue.Adds), st.Name)
	retries.send(out, float64(st.Queue.Retries), st.Name)
	unfinished.send(out, st.Queue.UnfinishedWork.Seconds(), st.Name)
	longestRunning.send(out, st.Queue.LongestRunning.Seconds(), st.Name)
	reconciles.send(out, float64(st.Reconciles), st.Name)
	errors.send(out, float64(st.Errors), st.Name, "error")
	errors.send(out, float64(st.TerminalErrors), st.Name, "terminal")
	errors.send(out, float64(st.Panics), st.Name, "panic")
	workers.send(out, float64(st.Workers), st.Name)
	busy.send(out, float64(st.Queue.Working), st.Name)
	gateWaits.send(out, float64(st.GateWaits), st.Name)
	gateTimeouts.send(out, float64(st.GateTimeouts), st.Name)
}

func toFloat(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// Histograms are the metrics that must be told of each event. They are a prometheus.Collector as well.
type Histograms struct {
	queue, work, reconcile *prometheus.HistogramVec
}

// NewHistograms returns histograms for any number of controllers.
func NewHistograms() *Histograms {
	buckets := prometheus.ExponentialBuckets(0.00001, 4, 12) // 10 µs to 42 s
	histogram := func(name, help string, labels ...string) *prometheus.HistogramVec {
		return prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, labels)
	}
	return &Histograms{
		queue:     histogram("workqueue_queue_duration_seconds", "How long an item waits for a worker.", "name"),
		work:      histogram("workqueue_work_duration_seconds", "How long a worker has an item.", "name"),
		reconcile: histogram("tidings_reconcile_duration_seconds", "How long a reconcile takes.", "controller", "outcome"),
	}
}

// Describe describes the histograms.
func (h *Histograms) Describe(out chan<- *prometheus.Desc) {
	h.queue.Describe(out)
	h.work.Describe(out)
	h.reconcile.Describe(out)
}

// Collect sends the histograms.
func (h *Histograms) Collect(out chan<- prometheus.Metric) {
	h.queue.Collect(out)
	h.work.Collect(out)
	h.reconcile.Collect(out)
}

// For returns the observer that a controller of this name needs.
func (h *Histograms) For(name string) controller.Metrics {
	return observer{name: name, queue: h.queue.WithLabelValues(name), work: h.work.WithLabelValues(name), reconcile: h.reconcile}
}

type observer struct {
	name        string
	queue, work prometheus.Observer
	reconcile   *prometheus.HistogramVec
}

func (o observer) ObserveQueueDuration(d time.Duration) { o.queue.Observe(d.Seconds()) }

func (o observer) ObserveWorkDuration(d time.Duration) { o.work.Observe(d.Seconds()) }

func (o observer) ObserveReconcile(outcome controller.Outcome, d time.Duration) {
	o.reconcile.WithLabelValues(o.name, outcome.String()).Observe(d.Seconds())
}
