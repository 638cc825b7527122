package metrics

import (
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tidings/tidings"
	"github.com/tidings/tidings/controller"
	"github.com/tidings/tidings/shards"
	"github.com/tidings/tidings/workqueue"
)

// Sources are the sources of the metrics. Each may be nil. The functions are called at each scrape, from any goroutine.
type Sources struct {
	// Informers is usually Factory.Status.
	Informers func() []tidings.Status
	// Queues returns the stats of queues that do not belong to a controller. They are labeled with
	// the names in their options. Equal names, also of controllers and elections, are numbered in
	// the order in which they are returned.
	Queues func() []workqueue.Stats
	// Controllers is usually Manager.Stats.
	Controllers func() []controller.Stats
	// Elections returns the stats of LeaseElectors.
	Elections func() []controller.LeaseStats
	// Shards returns the stats of replicas that share shards.
	Shards func() []shards.Stats
}

// Collector is a prometheus.Collector. Its methods may be called from any goroutine. Registries
// reject everything if two collectors have the same metrics, so a program with several clusters
// registers each collector with a label of its own, by prometheus.WrapRegistererWith.
type Collector struct{ sources Sources }

// NewCollector returns a collector for the sources.
func NewCollector(sources Sources) *Collector { return &Collector{sources} }

// Describe sends nothing: the metrics depend on the informers, so the collector is an unchecked one.
func (c *Collector) Describe(chan<- *prometheus.Desc) {}

// Collect sends the present values.
func (c *Collector) Collect(out chan<- prometheus.Metric) {
	if c.sources.Informers != nil {
		informers := labelSets{}
		for _, st := range c.sources.Informers() {
			collectInformer(out, st, informers.distinct(st.Resource, st.Type, st.Scope))
		}
	}
	queues := labelSets{}
	if c.sources.Controllers != nil {
		controllers := labelSets{}
		for _, st := range c.sources.Controllers() {
			collectQueue(out, st.Queue, queues.distinct(st.Name))
			collectController(out, st, controllers.distinct(st.Name)[0])
		}
	}
	if c.sources.Queues != nil {
		for _, st := range c.sources.Queues() {
			collectQueue(out, st, queues.distinct(st.Name))
		}
	}
	if c.sources.Elections != nil {
		elections := labelSets{}
		for _, st := range c.sources.Elections() {
			leading.send(out, boolValue(st.Leading), elections.distinct(st.Name)...)
		}
	}
	if c.sources.Shards != nil {
		groups := labelSets{}
		for _, st := range c.sources.Shards() {
			collectShards(out, st, groups.distinct(st.Name)[0])
		}
	}
}

// metric is a metric's description and type.
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

// sendHistogram sends a histogram of durations in seconds.
func (m metric) sendHistogram(out chan<- prometheus.Metric, h workqueue.Histogram, labels ...string) {
	out <- prometheus.MustNewConstHistogram(m.desc, h.Count, h.Sum.Seconds(), h.Buckets(), labels...)
}

func boolValue(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// Metrics of a queue.
var (
	depth          = gauge("workqueue_depth", "Number of waiting items.", "name")
	adds           = counter("workqueue_adds_total", "Items added.", "name")
	retries        = counter("workqueue_retries_total", "Items added with a delay or rate limit.", "name")
	queueDuration  = gauge("workqueue_queue_duration_seconds", "How long items wait for a worker.", "name")
	workDuration   = gauge("workqueue_work_duration_seconds", "How long workers take for items.", "name")
	unfinished     = gauge("workqueue_unfinished_work_seconds", "Total time spent so far on the items in progress.", "name")
	longestRunning = gauge("workqueue_longest_running_processor_seconds", "Longest time spent so far on an item in progress.", "name")
)

func collectQueue(out chan<- prometheus.Metric, st workqueue.Stats, labels []string) {
	depth.send(out, float64(st.Depth), labels...)
	adds.send(out, float64(st.Adds), labels...)
	retries.send(out, float64(st.Retries), labels...)
	queueDuration.sendHistogram(out, st.QueueDuration, labels...)
	workDuration.sendHistogram(out, st.WorkDuration, labels...)
	unfinished.send(out, st.UnfinishedWork.Seconds(), labels...)
	longestRunning.send(out, st.LongestRunning.Seconds(), labels...)
}

// Metrics of a controller, besides those of its queue.
var (
	reconciles    = counter("tidings_reconcile_total", "Reconciles that have ended, by outcome.", "controller", "outcome")
	reconcileTime = gauge("tidings_reconcile_duration_seconds", "How long reconciles take.", "controller")
	timeouts      = counter("tidings_reconcile_timeouts_total", "Reconciles that failed because they took too long.", "controller")
	workers       = gauge("tidings_controller_workers", "Workers.", "controller")
	active        = gauge("tidings_controller_active_workers", "Workers that are reconciling.", "controller")
	mapperPanics  = counter("tidings_controller_mapper_panics_total", "Panics of mappers and predicates.", "controller")
	unmapped      = gauge("tidings_controller_unmapped_objects", "Objects for which a mapper has panicked and will be called again.", "controller")
	gateWaits     = counter("tidings_controller_gate_waits_total", "Times that a key waited for a cache to see the key's own writes.", "controller")
	gateTimeouts  = counter("tidings_controller_gate_timeouts_total", "Times that such a wait timed out.", "controller")
	gateWaiting   = gauge("tidings_controller_gate_waiting", "Keys that are waiting so now.", "controller")

	leading = gauge("leader_election_master_status", "1 while this process holds the lease.", "name")
)

// Metrics of shards.
var (
	shardsHeld     = gauge("tidings_shards_held", "Shards that this replica works on.", "name")
	shardsDraining = gauge("tidings_shards_draining", "Shards that this replica is about to give away.", "name")
	shardsUnowned  = gauge("tidings_shards_unowned", "Shards that no replica works on.", "name")
	longestUnowned = gauge("tidings_shards_longest_unowned_seconds", "Longest time that a shard had no owner.", "name")
	shardReplicas  = gauge("tidings_shards_replicas", "Replicas that share the shards.", "name")
	shardsGained   = counter("tidings_shards_gained_total", "Shards that this replica has taken up.", "name")
	shardsGiven    = counter("tidings_shards_given_total", "Shards that this replica has given away.", "name")
	shardLosses    = counter("tidings_shards_losses_total", "Times that this replica lost all its shards.", "name")
)

func collectShards(out chan<- prometheus.Metric, st shards.Stats, name string) {
	shardsHeld.send(out, float64(st.Held), name)
	shardsDraining.send(out, float64(st.Draining), name)
	shardsUnowned.send(out, float64(st.Unowned), name)
	longestUnowned.send(out, st.LongestUnowned.Seconds(), name)
	shardReplicas.send(out, float64(st.Members), name)
	shardsGained.send(out, float64(st.Gained), name)
	shardsGiven.send(out, float64(st.Given), name)
	shardLosses.send(out, float64(st.Losses), name)
}

func collectController(out chan<- prometheus.Metric, st controller.Stats, name string) {
	for outcome, n := range st.Outcomes() {
		reconciles.send(out, float64(n), name, outcome.String())
	}
	reconcileTime.sendHistogram(out, st.ReconcileTime, name)
	timeouts.send(out, float64(st.Timeouts), name)
	workers.send(out, float64(st.Workers), name)
	active.send(out, float64(st.ActiveWorkers), name)
	mapperPanics.send(out, float64(st.MapperPanics), name)
	unmapped.send(out, float64(st.UnmappedObjects), name)
	gateWaits.send(out, float64(st.GateWaits), name)
	gateTimeouts.send(out, float64(st.GateTimeouts), name)
	gateWaiting.send(out, float64(st.GateWaiting), name)
}

// handlersByName sums up handlers with the same name, because a metric must not appear twice.
func handlersByName(handlers []tidings.HandlerStatus) []tidings.HandlerStatus {
	var sums []tidings.HandlerStatus
	for _, h := range handlers {
		h.Name = label(h.Name)
		i := slices.IndexFunc(sums, func(s tidings.HandlerStatus) bool { return s.Name == h.Name })
		if i < 0 {
			sums = append(sums, h)
			continue
		}
		s := &sums[i]
		s.Pending += h.Pending
		s.Lag = max(s.Lag, h.Lag)
		s.Delivered += h.Delivered
		s.Panics += h.Panics
		s.Coalesced += h.Coalesced
	}
	return sums
}
