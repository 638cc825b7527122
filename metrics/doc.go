// Package metrics exports the metrics of informers, queues and controllers to Prometheus.
//
//	registry.MustRegister(metrics.NewCollector(metrics.Sources{Informers: factory.Status, Controllers: manager.Stats}))
//
// Everything is read at scrape time from the components' status, so nothing is counted twice, and there is
// no cost between scrapes.
//
// Metrics of queues have the usual names of Kubernetes components (workqueue_depth, …), those of
// reflectors the names of client-go (reflector_lists_total, …), and elections use
// leader_election_master_status, so that dashboards keep working. Metrics without an established
// name begin with tidings_.
//
// No label or value comes from the contents of an object.
package metrics
