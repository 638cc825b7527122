// Package engine runs what is compared: the informers, stores and queues of client-go and of Tidings, and a reader of
// bytes that decodes nothing, as the floor that neither can go below. What a measurement asks of them is the same.
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
	// Through is Tidings behind client-go's own interfaces, by package clientgo.
	Through Name = "through clientgo"
	// Bytes reads what the server sends, keeps the bytes of the initial list, and decodes nothing.
	Bytes Name = "bytes"
)

// Both are the engines that are compared.
var Both = []Name{ClientGo, Tidings}

// Config says what an engine runs on.
type Config struct {
	Server server.Address
	// Plain takes the server's port without TLS.
	Plain  bool
	Corpus corpus.Name
	// Encoding decides the Go type: typed objects for Protobuf, unstructured ones for JSON.
	Encoding server.Encoding
	// Parts is how many informers there are, each of one part of the corpus; 0 is one informer of all.
	Parts int
	// NoGuard turns Tidings' mutation guard off. client-go's is off unless the process was started with
	// KUBE_CACHE_MUTATION_DETECTOR=true.
	NoGuard bool
	// Budget is Tidings' memory budget in bytes; 0 is none.
	Budget int64
	// Keys gives Tidings a handler that wants keys alone, and no index: it is told of no versions.
	Keys bool
	// Dir is where Tidings saves its objects at the end, and starts from; empty is nowhere.
	Dir string
	// Dial makes the connections, if it is set.
	Dial func(ctx context.Context, network, address string) (net.Conn, error) `json:"-"`
}

// rest is how both engines connect. There is no rate limit, so that many informers do not wait for each other.
func (c Config) rest() *rest.Config {
	out := &rest.Config{Host: c.Server.Host, Dial: c.Dial, QPS: -1}
	out.TLSClientConfig.CAData = c.Server.CA
	if c.Plain {
		out.Host, out.TLSClientConfig.CAData = c.Server.Plain, nil
	}
	return out
}

// namespaces are those of the informers.
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

// Engine is a running set of informers. Its methods are called from one goroutine.
type Engine interface {
	// AddHandlers adds n handlers that do next to nothing to the first informer, and returns when they have been told
	// of all objects.
	AddHandlers(ctx context.Context, n int) error
	// Stop ends the informers and waits for them.
	Stop() error
}

// Folding is an Engine with a memory budget. Its methods are about the first informer.
type Folding interface {
	// Get reads a field of the object of that name, and reports whether there is one.
	Get(namespace, name string) bool
	// List visits all objects and reads a field of each. It returns how many there are.
	List() int
	// Folded returns how many objects are open and folded, and what the status says is wrong with the budget.
	Folded() (open, folded int, problem string)
}

// Streaming is an Engine that may tell its handlers of a list, or of what an earlier run has saved, before it has synced.
type Streaming interface {
	// WaitForSync waits until all informers have what the server had.
	WaitForSync(ctx context.Context) error
}

// Resuming is an Engine that starts from what an earlier run has saved.
type Resuming interface {
	// Len returns how many objects readers have.
	Len() int
	// Loaded returns how many objects were saved, and an error if none could be used.
	Loaded() (int, error)
}

// Listing is an Engine whose informers are client-go's, at least by their interface.
type Listing interface {
	// ListPods lists all pods of the first informer by client-go's typed lister. It returns how many there are.
	ListPods() (int, error)
}

// Start starts informers, each with one index. They call see with the resource version of every object that a handler is
// told of, each informer from one goroutine. Start does not wait for the initial list.
func Start(ctx context.Context, name Name, c Config, see func(version string)) (Engine, error) {
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

// Client is what an informer of pods is given when there is no server.
type Client interface {
	List(context.Context, metav1.ListOptions) (*corev1.PodList, error)
	Watch(context.Context, metav1.ListOptions) (watch.Interface, error)
}

// Cache is an informer of pods over a Client, with an index by namespace.
type Cache interface {
	// Start starts the informer with a handler that calls update for every change, and waits until it has synced.
	Start(ctx context.Context, update func()) error
	// List visits every pod of the namespace and reads a field. It returns how many have one.
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
	// Write takes the pods in one transaction.
	Write(pods []*corev1.Pod)
	// Get returns the pod of that name, as a lister does.
	Get(namespace, name string) (*corev1.Pod, bool)
	// ListNamespace, List and ByNode visit pods and read a field of each. They return how many have one.
	ListNamespace(namespace string) int
	List() int
	ByNode(node string) int
}

// NewStore returns a store that holds the pods.
func NewStore(name Name, pods []corev1.Pod) Store {
	if name == Tidings {
		return newTidingsStore(pods)
	}
	return newClientGoStore(pods)
}

// NewQueue returns a function that puts an item into a work queue, takes it out again and is done with it.
func NewQueue(ctx context.Context, name Name) func(item string) {
	if name == Tidings {
		return newTidingsQueue(ctx)
	}
	return newClientGoQueue()
}

// named reports whether the field that readers read is set.
func named(pod *corev1.Pod) bool { return pod.Name != "" }

func podNode(pod *corev1.Pod) []string { return []string{pod.Spec.NodeName} }
