package metrics

import (
	"slices"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tidings/tidings"
)

func informerLabels(more ...string) []string {
	return append([]string{"resource", "type", "scope"}, more...)
}

// Metrics of an informer.
var (
	objects         = gauge("tidings_informer_objects", "Objects in the store.", informerLabels()...)
	synced          = gauge("tidings_informer_synced", "1 while the initial lists of all namespaces are in the store.", informerLabels()...)
	fresh           = gauge("tidings_informer_fresh", "1 while the store is current.", informerLabels()...)
	skipped         = gauge("tidings_informer_skipped_objects", "Objects that cannot be decoded.", informerLabels()...)
	age             = gauge("tidings_informer_age_seconds", "Time since the server was last heard from.", informerLabels()...)
	mutations       = counter("tidings_informer_mutations_total", "Detected writes to cached objects.", informerLabels()...)
	indexPanics     = counter("tidings_informer_index_panics_total", "Panics of index functions.", informerLabels()...)
	leftOut         = gauge("tidings_informer_left_out_objects", "Objects that the transform leaves out.", informerLabels()...)
	transformErrors = counter("tidings_informer_transform_errors_total", "Failures of transforms.", informerLabels()...)
)

// Additional metrics of an informer with a memory budget, or with so many objects that some may be folded. Informers that
// share a budget have the same budget and budget use.
var (
	openObjects   = gauge("tidings_informer_open_objects", "Objects that are decoded.", informerLabels()...)
	foldedObjects = gauge("tidings_informer_folded_objects", "Objects that are packed.", informerLabels()...)
	unfoldable    = gauge("tidings_informer_unfoldable_objects", "Objects that stay open because no encoding restores them exactly.", informerLabels()...)
	openBytes     = gauge("tidings_informer_open_bytes", "Size of open objects, estimated from a sample.", informerLabels()...)
	foldedBytes   = gauge("tidings_informer_folded_bytes", "Size of folded objects, with their dictionaries.", informerLabels()...)
	encodedBytes  = gauge("tidings_informer_folded_encoded_bytes", "Size that folded objects would have encoded but not packed.", informerLabels()...)
	memoryBytes   = gauge("tidings_informer_memory_bytes", "Memory, as a budget counts it.", informerLabels()...)
	opens         = counter("tidings_informer_opens_total", "Times that a folded object was opened.", informerLabels()...)
	opening       = counter("tidings_informer_opening_seconds_total", "Time that this has taken.", informerLabels()...)
	foldAfter     = gauge("tidings_informer_fold_after_seconds", "Time after which the unread fold.", informerLabels()...)
	budgetBytes   = gauge("tidings_informer_budget_bytes", "The memory budget of the informer and those that share it.", informerLabels()...)
	budgetUsed    = gauge("tidings_informer_budget_used_bytes", "Memory of the informers that share the budget.", informerLabels()...)
	overBudget    = gauge("tidings_informer_over_budget", "1 while the objects exceed the budget even when folded.", informerLabels()...)
)

func collectMemory(out chan<- prometheus.Metric, m tidings.MemoryStatus, labels []string) {
	if m.Budget == 0 && m.Bytes == 0 {
		return
	}
	openObjects.send(out, float64(m.Open), labels...)
	foldedObjects.send(out, float64(m.Folded), labels...)
	unfoldable.send(out, float64(m.Unfoldable), labels...)
	openBytes.send(out, float64(m.OpenBytes), labels...)
	foldedBytes.send(out, float64(m.FoldedBytes), labels...)
	encodedBytes.send(out, float64(m.EncodedBytes), labels...)
	memoryBytes.send(out, float64(m.Bytes), labels...)
	opens.send(out, float64(m.Opens), labels...)
	opening.send(out, m.Opening.Seconds(), labels...)
	foldAfter.send(out, m.FoldAfter.Seconds(), labels...)
	if m.Budget == 0 {
		return
	}
	budgetBytes.send(out, float64(m.Budget), labels...)
	budgetUsed.send(out, float64(m.Used), labels...)
	overBudget.send(out, boolValue(m.Problem != ""), labels...)
}

// Metrics of one list and watch of an informer. The namespace is empty for all namespaces.
var (
	lists            = counter("reflector_lists_total", "Complete collections read.", informerLabels("namespace")...)
	watches          = counter("reflector_watches_total", "Watches opened.", informerLabels("namespace")...)
	version          = gauge("reflector_last_resource_version", "The resource version that the store is current to.", informerLabels("namespace")...)
	relists          = counter("tidings_informer_relists_total", "Complete collections read again.", informerLabels("namespace")...)
	events           = counter("tidings_informer_events_total", "Changes from watches.", informerLabels("namespace")...)
	bookmarks        = counter("tidings_informer_bookmarks_total", "Bookmarks from watches.", informerLabels("namespace")...)
	invalid          = counter("tidings_informer_invalid_events_total", "Events that could not be decoded.", informerLabels("namespace")...)
	failures         = counter("tidings_informer_errors_total", "Requests and streams that failed.", informerLabels("namespace")...)
	rewrites         = counter("tidings_informer_history_rewrites_total", "Times that the server's history was found to be rewritten.", informerLabels("namespace")...)
	stalls           = counter("tidings_informer_stalls_total", "Watches abandoned because they had gone silent.", informerLabels("namespace")...)
	audits           = counter("tidings_informer_audits_total", "Audits of the store against the server, by outcome.", informerLabels("namespace", "outcome")...)
	auditDifferences = counter("tidings_informer_audit_differences_total", "Objects that differed from the server in audits.", informerLabels("namespace")...)
	bytes            = counter("tidings_informer_bytes_total", "Bytes of list and watch bodies read.", informerLabels("namespace")...)
	decoded          = counter("tidings_informer_decoded_objects_total", "Objects decoded.", informerLabels("namespace")...)
	fromFunctions    = gauge("tidings_informer_from_functions",
		"1 while objects are what the program's functions or client return, which decode them.", informerLabels("namespace")...)

	fileLoaded   = gauge("tidings_informer_file_loaded_objects", "Objects loaded from a file at the start.", informerLabels("namespace")...)
	fileServing  = gauge("tidings_informer_file_serving", "1 while readers see objects from a file that the server has not confirmed.", informerLabels("namespace")...)
	fileSaves    = counter("tidings_informer_file_saves_total", "Times that the objects were saved.", informerLabels("namespace")...)
	fileFailures = counter("tidings_informer_file_failures_total", "Times that the objects could not be saved.", informerLabels("namespace")...)
	fileBytes    = gauge("tidings_informer_file_bytes", "Size of the file in which the objects are saved.", informerLabels("namespace")...)
)

// Metrics of a handler.
var (
	pending   = gauge("tidings_informer_handler_pending", "Changes that a handler has not been notified of.", informerLabels("handler")...)
	lag       = gauge("tidings_informer_handler_lag_seconds", "How long the oldest pending change has waited.", informerLabels("handler")...)
	delivered = counter("tidings_informer_handler_delivered_total", "Changes that a handler was notified of.", informerLabels("handler")...)
	coalesced = counter("tidings_informer_handler_coalesced_total", "Changes that were merged into others.", informerLabels("handler")...)
	panics    = counter("tidings_informer_handler_panics_total", "Calls of a handler that panicked.", informerLabels("handler")...)
)

func collectInformer(out chan<- prometheus.Metric, st tidings.Status, labels []string) {
	objects.send(out, float64(st.Objects), labels...)
	synced.send(out, boolValue(st.Synced), labels...)
	fresh.send(out, boolValue(st.NotFresh == nil), labels...)
	skipped.send(out, float64(st.SkippedCount), labels...)
	age.send(out, st.Age.Seconds(), labels...)
	mutations.send(out, float64(st.Mutations), labels...)
	indexPanics.send(out, float64(st.IndexPanics), labels...)
	leftOut.send(out, float64(st.LeftOut), labels...)
	transformErrors.send(out, float64(st.TransformErrors), labels...)
	collectMemory(out, st.Memory, labels)
	for _, p := range st.Parts {
		collectPart(out, p, append(slices.Clip(labels), label(p.Namespace)))
	}
	for _, h := range handlersByName(st.Handlers) {
		labels := append(slices.Clip(labels), h.Name)
		pending.send(out, float64(h.Pending), labels...)
		lag.send(out, h.Lag.Seconds(), labels...)
		delivered.send(out, float64(h.Delivered), labels...)
		coalesced.send(out, float64(h.Coalesced), labels...)
		panics.send(out, float64(h.Panics), labels...)
	}
}

func collectPart(out chan<- prometheus.Metric, p tidings.PartStatus, labels []string) {
	r := p.Reflector
	lists.send(out, float64(r.Lists), labels...)
	watches.send(out, float64(r.Watches), labels...)
	if v, err := strconv.ParseFloat(p.ResourceVersion, 64); err == nil {
		version.send(out, v, labels...)
	}
	relists.send(out, float64(r.Relists), labels...)
	events.send(out, float64(r.Events), labels...)
	bookmarks.send(out, float64(r.Bookmarks), labels...)
	invalid.send(out, float64(r.Invalid), labels...)
	failures.send(out, float64(r.Errors), labels...)
	rewrites.send(out, float64(r.Rewrites), labels...)
	stalls.send(out, float64(r.Stalls), labels...)
	auditDifferences.send(out, float64(p.Audit.Differences), labels...)
	for outcome, n := range map[string]uint64{"same": p.Audit.Completed - p.Audit.Heals, "different": p.Audit.Heals, "inconclusive": p.Audit.Inconclusive} {
		audits.send(out, float64(n), append(slices.Clip(labels), outcome)...)
	}
	bytes.send(out, float64(p.Source.Bytes), labels...)
	decoded.send(out, float64(p.Source.Objects), labels...)
	fromFunctions.send(out, boolValue(p.Source.FromFunctions != ""), labels...)
	if p.File.Path != "" {
		collectFile(out, p.File, labels)
	}
}

func collectFile(out chan<- prometheus.Metric, f tidings.FileStatus, labels []string) {
	fileLoaded.send(out, float64(f.Loaded), labels...)
	fileServing.send(out, boolValue(f.Serving), labels...)
	fileSaves.send(out, float64(f.Saves), labels...)
	fileFailures.send(out, float64(f.Failures), labels...)
	fileBytes.send(out, float64(f.SavedBytes), labels...)
}
