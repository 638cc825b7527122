package tidingstest

import (
	"context"
	"time"

	"github.com/tidings/tidings/tidingstest/internal/rest"
	"k8s.io/apimachinery/pkg/runtime"
)

// ServerOptions says how a Server works. The zero value is a current server over in-memory connections.
type ServerOptions struct {
	// Loopback serves on a TCP port of 127.0.0.1. Without it the connections stay in memory, which also works
	// inside a synctest bubble.
	Loopback bool
	// HTTP2 speaks HTTP/2 instead of HTTP/1.1.
	HTTP2 bool
	// TLS serves over TLS with a certificate that the clients of Config trust; see ChangeCertificate.
	TLS bool
	// NoWatchList answers 422 to a watch that asks for initial events, as servers did before they knew it.
	NoWatchList bool
	// BookmarkInterval is how often a watch gets a bookmark; 0 means every minute.
	BookmarkInterval time.Duration
	// WatchTimeout ends a watch that named no timeout; 0 means 30 minutes.
	WatchTimeout time.Duration
	// History is how many changes of each resource the server remembers; 0 means 10,000. Who wants to start from an older
	// one gets 410 Gone.
	History int

	// Scheme declares its custom resources to the server, under the usual plurals of their kinds, namespaced, and with a
	// status subresource if the type has a field Status. Resources that differ are declared with AddResource.
	Scheme *runtime.Scheme
	// Admit is asked before each write of a client, after defaults and before validation, and may change
	// Admission.Object or refuse the write with an error. An error of apierrors is answered as it is, any other as a 403.
	// It is called without locks held, possibly again when another write came in between, and may use the server.
	Admit func(context.Context, *Admission) error
	// RequireNamespaces refuses to create objects in namespaces that do not exist, as a real server does. The namespaces
	// default and kube-… always exist.
	RequireNamespaces bool
	// GarbageCollector deletes the dependents of deleted owners, carries out foreground deletion and orphaning, and empties
	// deleted namespaces, in the same moment as the write that gave cause. Without it the server behaves like one without
	// controllers: finalizers stay until a client removes them.
	GarbageCollector bool
	// Seed decides the names that the server generates.
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

// Admission is a write before it is carried out.
type Admission = rest.Admission

// Operation is what an Admission wants to do.
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
