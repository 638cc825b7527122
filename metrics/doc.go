// Package metrics shows informers, queues and controllers to Prometheus.
//
//	registry.MustRegister(metrics.NewCollector(metrics.Sources{Informers: factory.Status, Controllers: manager.Stats}))
//
// Everything is read when it is scraped, from the snapshots of state that the components give: nothing is counted twice, and
// nothing is paid for between two scrapes.
//
// Queues have the names that every Kubernetes component uses (workqueue_depth, …), reflectors those of client-go
// (reflector_lists_total, …), and elections leader_election_master_status, so that dashboards keep working. What the field
// has no name for begins with tidings_.
//
// No label or value comes from the contents of an object.
package metrics
