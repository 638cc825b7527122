package tidings

import (
	"fmt"
	"strings"
	"time"

	"github.com/tidings/tidings/internal/engine"
	"github.com/tidings/tidings/reflector"
	"github.com/tidings/tidings/source"
)

// Status is an informer's state at one moment. Taking it is cheap and does not hold up the processing of changes.
type Status struct {
	// Resource is the informer's name, such as "pods" or "widgets.example.com".
	Resource string
	// Type is the Go type of its objects. Scope distinguishes informers of one resource and type, such as
	// "namespaces=a,b labels=app=web"; empty for the whole resource.
	Type, Scope string
	// Started, Stopped and Synced are the stages of the informer's life. Synced is set while the initial list of every
	// namespace is in the store: adding a namespace clears it until that namespace has been listed.
	Started, Stopped, Synced bool
	// NotFresh is the present problem, as returned by SharedInformer.Fresh; nil if there is none.
	NotFresh error
	// Age is the time since the server was last heard from (a successful response, an event or a
	// bookmark), or the age of a file's contents while they are served; if the informer has several
	// parts, the longest.
	Age time.Duration
	// ResourceVersion is the version that the store is current to.
	ResourceVersion string
	// Objects is how many objects the store holds.
	Objects int
	// Skipped lists the first of the SkippedCount objects that cannot be decoded. The store has no
	// state of these, or an older one.
	Skipped      []SkippedObject
	SkippedCount int
	// Parts has one entry for each namespace of the scope; a single one for all namespaces.
	Parts []PartStatus
	// Handlers has one entry for each handler, in the order in which they were added.
	Handlers []HandlerStatus
	// Mutations is how often the mutation guard has caught somebody writing to a cached object.
	Mutations uint64
	// IndexPanics and TransformErrors count failures of index functions and transforms.
	IndexPanics, TransformErrors uint64
	// LeftOut is how many objects the transform leaves out at present. After a start from a file,
	// those that have not changed since are not known.
	LeftOut int
	// ReportsDropped counts calls to OnError and OnMutation that were skipped because earlier ones took too long.
	ReportsDropped uint64
	// Memory is the objects' memory use.
	Memory MemoryStatus
}

// PartStatus is the state of one list and watch.
type PartStatus struct {
	// Namespace is empty for all namespaces and for cluster-scoped resources.
	Namespace string
	// ResourceVersion is the version that the store is current to in the namespace.
	ResourceVersion string
	// Age is the time since the server was last heard from, or the age of the contents of the file
	// while File.Serving is set.
	Age time.Duration
	// Reflector says what the list and watch is doing.
	Reflector reflector.Status
	// Source counts bytes and objects read, and says why there are none; zero for sources that do not count.
	Source source.Stats
	// File is the state of the file in which the objects are saved; see Options.Files.Dir.
	File FileStatus
	// Audit holds the results of comparing the store with the server; see Options.Audit.
	Audit AuditStatus
}

// FileStatus is the state of the file of one list and watch; see Options.Files.Dir.
type FileStatus struct {
	// Path is empty if nothing is saved; if Options.Files.Dir is set, Err says why.
	Path string
	// Loaded is how many objects the informer loaded from the file at its start, and AsOf when they
	// were the server's state. AsOf is the zero time if the informer began with a list.
	Loaded int
	AsOf   time.Time
	// Serving is set while readers and handlers see the contents of the file, because the server
	// has not yet confirmed them and sent what has changed since.
	Serving bool
	// Discarded is why the file found at the start was not used; nil if it was. Such a file is
	// removed, unless reading it failed.
	Discarded error
	// Saves counts how often the file was written. SavedAt is when it was last written,
	// SavedObjects and SavedBytes what it contains.
	Saves        uint64
	SavedAt      time.Time
	SavedObjects int
	SavedBytes   int64
	// Failures counts failed saves. Err is the error of the last save; nil if it succeeded.
	Failures uint64
	Err      error
}

// AuditStatus holds the results of the audits of one list and watch; see Options.Audit.
type AuditStatus struct {
	// Completed counts the audits that compared everything, Inconclusive those that could not; Err
	// is why the last audit could not, nil if it could.
	Completed, Inconclusive uint64
	// Differences counts the objects that were found to differ, and Heals the lists that repaired them.
	Differences, Heals uint64
	// LastCompleted is when an audit last compared everything; zero if none has.
	LastCompleted time.Time
	Err           error
}

// HandlerStatus is the state of one handler.
type HandlerStatus struct {
	Name   string
	Policy Policy
	// Synced is set once the handler has been notified of every object of the initial list.
	Synced bool
	// Pending is how many deltas are waiting for the handler.
	Pending int
	// Lag is how long the oldest of them has waited.
	Lag time.Duration
	// Delivered counts the calls, Panics those that panicked or called runtime.Goexit, and
	// Coalesced the deltas that were merged into others.
	Delivered, Panics, Coalesced uint64
}

func handlerStatus(h engine.HandlerStatus) HandlerStatus {
	return HandlerStatus{
		Name: h.Name, Policy: Policy(h.Policy), Synced: h.Synced, Pending: h.Pending, Lag: h.Lag,
		Delivered: h.Delivered, Panics: h.Panics, Coalesced: h.Coalesced,
	}
}

// Status returns the informer's status.
func (inf *SharedInformer[T]) Status() Status { return inf.info.status(inf.core) }

// Fresh returns nil while the store is current: the informer runs, has synced, watches every
// namespace of its scope, has heard from the server within Options.StaleAfter, is not behind what
// it knows the server to have had for that long, and could decode every object. Otherwise the error
// says which of these is not the case, and wraps the error from the server or the network.
func (inf *SharedInformer[T]) Fresh() error { return inf.info.fresh(inf.core.Status()) }

// informerInfo is what the public API knows of an informer besides its engine.
type informerInfo struct {
	resource   string // "pods"
	title      string // the resource and what distinguishes the informer from others of the resource, for messages
	goType     string
	scope      target // except for the namespaces, which can change
	staleAfter time.Duration
}

// statusReporter is the status side of an engine.Informer of any type.
type statusReporter interface {
	Status() engine.Status
	Namespaces() []string
}

func (a informerInfo) status(inf statusReporter) Status {
	raw := inf.Status()
	a.scope.namespaces = inf.Namespaces()
	st := Status{
		Resource: a.resource, Type: a.goType, Scope: a.scope.String(), Started: raw.Started, Stopped: raw.Stopped, Synced: raw.Synced,
		NotFresh: a.fresh(raw), ResourceVersion: raw.ResourceVersion, Objects: raw.Objects, Mutations: raw.Mutations,
		Memory: MemoryStatus(raw.Memory), IndexPanics: raw.IndexPanics, TransformErrors: raw.TransformErrors, LeftOut: raw.LeftOut, ReportsDropped: raw.ReportsDropped,
	}
	for _, p := range raw.Parts {
		st.Parts = append(st.Parts, PartStatus{
			Namespace: p.Namespace, ResourceVersion: p.ResourceVersion, Age: p.Age, Reflector: p.Reflector, Source: p.Source, File: FileStatus(p.File), Audit: AuditStatus(p.Audit),
		})
		st.Age = max(st.Age, p.Age)
		st.Skipped = append(st.Skipped, skippedObjects(p.Reflector.Skipped)...)
		st.SkippedCount += p.Reflector.SkippedTotal
	}
	for _, h := range raw.Handlers {
		st.Handlers = append(st.Handlers, handlerStatus(h))
	}
	return st
}

// fresh returns why an informer in this state is not fresh, judging by the first part that is not.
func (a informerInfo) fresh(raw engine.Status) error {
	switch {
	case raw.Stopped:
		return fmt.Errorf("%s: %w", a.title, ErrStopped)
	case !raw.Started:
		return fmt.Errorf("%s: %w", a.title, ErrNotStarted)
	}
	for _, p := range raw.Parts {
		if err := a.partFresh(p, raw); err != nil {
			return err
		}
	}
	return nil
}

// partFresh returns why a part of an informer in this state is not fresh.
func (a informerInfo) partFresh(p engine.PartStatus, raw engine.Status) error {
	r, namespace := p.Reflector, ""
	if len(raw.Parts) > 1 {
		namespace = p.Namespace
	}
	switch {
	case r.SyncedSince.IsZero():
		return &SyncError{Resource: a.title, Namespace: namespace, Cause: r.Problem, Progress: p.File.Progress(r)}
	case r.Problem != nil || p.Age > a.staleAfter:
		return &StaleError{Resource: a.title, Namespace: namespace, Age: p.Age, Cause: r.Problem, Handlers: blocking(raw.Handlers)}
	case !r.BehindSince.IsZero() && time.Since(r.BehindSince) > a.staleAfter:
		return &StaleError{Resource: a.title, Namespace: namespace, Age: p.Age, Handlers: blocking(raw.Handlers),
			Version: p.ResourceVersion, ServerVersion: r.ServerVersion, BehindFor: time.Since(r.BehindSince)}
	case r.SkippedTotal > 0:
		return &SyncError{Resource: a.title, Namespace: namespace, Skipped: skippedObjects(r.Skipped), SkippedCount: r.SkippedTotal, Progress: "synced"}
	}
	return nil
}

// blocking names the handlers that an informer is waiting for.
func blocking(handlers []engine.HandlerStatus) (names []string) {
	for _, h := range handlers {
		if h.Full {
			names = append(names, h.Name)
		}
	}
	return names
}

// StaleError says why an informer that has synced is no longer current.
type StaleError struct {
	// Resource names the informer, and Namespace the stale namespace if it has several.
	Resource, Namespace string
	// Age is the time since the server was last heard from.
	Age time.Duration
	// Cause is the present problem; nil if the server is merely silent.
	Cause *reflector.Error
	// Handlers names the handlers with the policy Block whose buffers are full: while the informer
	// waits for them, it does not listen to the server.
	Handlers []string
	// Version is the store's resource version, ServerVersion a newer one that the server was seen
	// to have BehindFor ago. They are set if the server responds, but its watches do not bring the
	// store to that version.
	Version, ServerVersion string
	BehindFor              time.Duration
}

// Error returns one line.
func (e *StaleError) Error() string {
	of, age := where(e.Resource, e.Namespace), e.Age.Round(100*time.Millisecond)
	switch {
	case e.Cause != nil:
		return fmt.Sprintf("%s: stale: the server was last heard from %s ago: %v", of, age, e.Cause)
	case e.ServerVersion != "":
		return fmt.Sprintf("%s: stale: at resource version %s, although the server has had %s for %s; its watches do not bring it%s",
			of, e.Version, e.ServerVersion, e.BehindFor.Round(100*time.Millisecond), full(e.Handlers))
	case len(e.Handlers) > 0:
		return fmt.Sprintf("%s: stale: nothing heard from the server for %s%s", of, age, full(e.Handlers))
	default:
		return fmt.Sprintf("%s: stale: nothing heard from the server for %s", of, age)
	}
}

// full says which handlers an informer is waiting for.
func full(handlers []string) string {
	if len(handlers) == 0 {
		return ""
	}
	return "; the buffers of handlers are full, and the informer waits for room: " + strings.Join(handlers, ", ")
}

// Unwrap returns Cause.
func (e *StaleError) Unwrap() error {
	if e.Cause == nil {
		return nil
	}
	return e.Cause
}
