package tidingstest

import (
	"context"
	"time"

	"github.com/tidings/tidings/tidingstest/internal/rest"
	"k8s.io/apimachinery/pkg/runtime"
)

// ServerOptions configures a Server. The zero value is a current server over in-memory connections.
type ServerOptions struct {
	// Loopback listens on a TCP port of 127.0.0.1. Otherwise connections are in memory, which also works inside a
	// synctest bubble.
	Loopback bool
	// HTTP2 uses HTTP/2 instead of HTTP/1.1.
	HTTP2 bool
	// TLS uses TLS with a certificate that the clients of Config trust; see ChangeCertificate.
	TLS bool
	// NoWatchList responds with 422 to a watch that requests initial events, as servers without that feature did.
	NoWatchList bool
	// BookmarkInterval is how often a watch gets a bookmark; 0 means every minute.
	BookmarkInterval time.Duration
	// WatchTimeout limits a watch that specifies no timeout; 0 means 30 minutes.
	WatchTimeout time.Duration
	// History is the number of changes that the server keeps for each resource; 0 means 10,000. Reading from an older
	// version gets 410 Gone.
	History int

	// Scheme declares its custom resources to the server, with the usual plurals of their kinds, namespaced, and with a
	// status subresource if the type has a field Status. Use AddResource for resources that differ.
	Scheme *runtime.Scheme
	// Admit is called before each write of a client, after defaulting and before validation. It may change
	// Admission.Object, or reject the write with an error. An error of apierrors is returned as is, any other as a 403.
	// It is called without locks held, and again if another write came in between. It may use the server.
	Admit func(context.Context, *Admission) error
	// RequireNamespaces rejects creations in namespaces that do not exist, as a real server does.
	// The namespaces default and kube-… always exist.
	RequireNamespaces bool
	// GarbageCollector deletes the dependents of deleted owners, completes foreground deletion and orphaning, and
	// empties deleted namespaces, as part of the triggering write. Without it the server behaves like one without
	// controllers: finalizers stay until a client removes them.
	GarbageCollector bool
	// Seed determines the names that the server generates.
	Seed uint64
}

const defaultHistory = 10_000

func (o ServerOptions) withDefaults() ServerOptions {
	if o.BookmarkInterval == 0 {
		o.BookmarkInterval = time.Minute
	}
	if o.WatchTimeout == 0 {
		o.WatchTimeout = 30 * time.Minute
	}
	if o.History == 0 {
		o.History = defaultHistory
	}
	return o
}

// Admission is a write that awaits admission.
type Admission = rest.Admission

// Operation is the operation of an Admission.
type Operation = rest.Operation

// The operations that are subject to admission.
const (
	AdmitCreate = rest.Create
	AdmitUpdate = rest.Update
	AdmitDelete = rest.Delete
)

func newRegistry(s *Server) *rest.Registry {
	r := rest.NewRegistry(s.store, s.catalog, s.options.Seed)
	r.Admit = s.options.Admit
	r.Clock = s.now
	r.RequireNamespaces = s.options.RequireNamespaces
	r.CollectGarbage = s.options.GarbageCollector
	return r
}
