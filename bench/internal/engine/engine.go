// Package engine runs what is compared: the informers, stores and queues of client-go and of Tidings, and a reader of
// bytes that decodes nothing, as the lower bound for both. All have the same interface for measurements.
package engine

import (
	"context"
	"fmt"
	"net"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"

	"github.com/tidings/tidings/bench/internal/corpus"
	"github.com/tidings/tidings/bench/internal/server"
)

// Name names an engine.
type Name string

// The engines.
const (
	ClientGo Name = "client-go"
	Tidings  Name = "tidings"
	// Through is Tidings behind client-go's own interfaces, through package clientgo.
	Through Name = "through clientgo"
	// Bytes reads what the server sends, keeps the bytes of the initial list, and decodes nothing.
	Bytes Name = "bytes"
)

// Both are the engines that are compared.
var Both = []Name{ClientGo, Tidings}

// Config configures an engine.
type Config struct {
	Server server.Address
	// Plain uses the server's port without TLS.
	Plain  bool
	Corpus corpus.Name
	// Encoding determines the Go type: typed objects for Protobuf, unstructured ones for JSON.
	Encoding server.Encoding
	// Parts is the number of informers, each for one part of the corpus; 0 means one informer for everything.
	Parts int
	// NoGuard disables Tidings' mutation guard. client-go's is off unless the process was started with
	// KUBE_CACHE_MUTATION_DETECTOR=true.
	NoGuard bool
	// KeepOpen makes Tidings keep all objects open.
	KeepOpen bool
	// Budget is Tidings' memory budget in bytes; 0 means none.
	Budget int64
	// Keys gives Tidings a handler that only gets keys, and no index: it gets no versions.
	Keys bool
	// Dir is the directory in which Tidings saves its objects at the end, and from which it starts; empty means none.
	Dir string
	// Transform is a transform of the informers of ClientGo and Through.
	Transform Transform
	// Way is how the informers of ClientGo and Through are made; empty means by a factory.
	Way Way
	// Paged makes Tidings use paged lists. client-go does so with KUBE_FEATURE_WatchListClient=false.
	Paged bool
	// Rest is the configuration of both engines' clients, if it is set; Server does not count then.
	Rest *rest.Config `json:"-"`
	// Dial opens the connections, if it is set.
	Dial func(ctx context.Context, network, address string) (net.Conn, error) `json:"-"`
}

// rest returns the configuration of both engines' clients. There is no rate limit, so that many
// informers do not wait for each other.
func (c Config) rest() *rest.Config {
	if c.Rest != nil {
		return rest.CopyConfig(c.Rest)
	}
	out := &rest.Config{Host: c.Server.Host, Dial: c.Dial, QPS: -1}
	out.TLSClientConfig.CAData = c.Server.CA
	if c.Plain {
		out.Host, out.TLSClientConfig.CAData = c.Server.Plain, nil
	}
	return out
}

// namespaces returns the namespaces of the informers.
func (c Config) namespaces() []string {
	if c.Parts == 0 {
		return []string{metav1.NamespaceAll}
	}
	out := make([]string, c.Parts)
	for i := range out {
		out[i] = corpus.Part(i)
	}
	return out
}

// Engine is a running set of informers. Its methods must not be called concurrently.
type Engine interface {
	// AddHandlers adds n handlers that do next to nothing to the first informer, and returns when
	// they have received all objects.
	AddHandlers(ctx context.Context, n int) error
	// Stop stops the informers and waits for them.
	Stop() error
}

// Folding is an Engine with a memory budget. Its methods concern the first informer.
type Folding interface {
	// Get reads a field of the named object, and reports whether the object exists.
	Get(namespace, name string) bool
	// List visits all objects and reads a field of each. It returns their number.
	List() int
	// Folded returns the numbers of open and folded objects, and the problem with the budget that the status reports.
	Folded() (open, folded int, problem string)
}

// Streaming is an Engine that may notify its handlers of a list, or of what an earlier run has saved, before it has
// synced.
type Streaming interface {
	// WaitForSync waits until all informers have synced.
	WaitForSync(ctx context.Context) error
}

// Resuming is an Engine that starts from what an earlier run has saved.
type Resuming interface {
	// Len returns the number of objects that readers see.
	Len() int
	// Loaded returns the number of loaded objects, and an error if none could be used.
	Loaded() (int, error)
}

// Listing is an Engine whose informers have client-go's interface.
type Listing interface {
	// ListPods lists all pods of the first informer with client-go's typed lister. It returns their number.
	ListPods() (int, error)
}

// Start starts informers, each with one index. They call see with the resource version of every object that a handler
// receives, each informer from one goroutine. Start does not wait for the initial list.
func Start(ctx context.Context, name Name, c Config, see func(version string)) (Engine, error) {
	switch {
	case c.Way == BareReflector && name == ClientGo:
		return startReflector(ctx, c, see, clientGoReflector, clientGoConstructors())
	case c.Way == BareReflector && name == Through:
		return startReflector(ctx, c, see, throughReflector, throughConstructors())
	}
	switch name {
	case ClientGo:
		return startClientGo(ctx, c, see, clientGoInformers)
	case Through:
		return startClientGo(ctx, c, see, throughInformers)
	case Tidings:
		return startTidings(ctx, c, see)
	default:
		return nil, fmt.Errorf("there are no informers of %q", name)
	}
}

// Client is the source of a pod informer without a server.
type Client interface {
	List(context.Context, metav1.ListOptions) (*corev1.PodList, error)
	Watch(context.Context, metav1.ListOptions) (watch.Interface, error)
}

// Cache is a pod informer over a Client, with an index by namespace.
type Cache interface {
	// Start starts the informer with a handler that calls update for every change, and waits until it has synced.
	Start(ctx context.Context, update func()) error
	// List visits every pod of the namespace and reads a field. It returns the number of pods that have it.
	List() int
	// AddHandlers adds n handlers that do next to nothing, and waits until they have synced.
	AddHandlers(ctx context.Context, n int) error
	Stop()
}

// NewCache returns a cache that has not been started.
func NewCache(name Name, client Client, namespace string) (Cache, error) {
	if name == Tidings {
		return newTidingsCache(client, namespace)
	}
	return newClientGoCache(client, namespace), nil
}

// Store is a bare store of pods with two indexes, by namespace and by node.
type Store interface {
	// Write writes the pods in one transaction.
	Write(pods []*corev1.Pod)
	// Get returns the named pod, as a lister does.
	Get(namespace, name string) (*corev1.Pod, bool)
	// ListNamespace, List and ByNode visit pods and read a field of each. They return the number of pods that have it.
	ListNamespace(namespace string) int
	List() int
	ByNode(node string) int
}

// NewStore returns a store with the pods.
func NewStore(name Name, pods []corev1.Pod) Store {
	if name == Tidings {
		return newTidingsStore(pods)
	}
	return newClientGoStore(pods)
}

// NewQueue returns a function that adds an item to a work queue, gets it and marks it done.
func NewQueue(ctx context.Context, name Name) func(item string) {
	if name == Tidings {
		return newTidingsQueue(ctx)
	}
	return newClientGoQueue()
}

// named reads the field, and reports whether it is set.
func named(pod *corev1.Pod) bool { return pod.Name != "" }

func podNode(pod *corev1.Pod) []string { return []string{pod.Spec.NodeName} }
