package replicaset

import (
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/record"

	"github.com/tidings/tidings"
	"github.com/tidings/tidings/controller"
	"github.com/tidings/tidings/object"
)

// defaultBurst is how many pods upstream's controllers create or delete in one reconcile.
const defaultBurst = 500

// Options are the options of a controller. Client must be set.
type Options struct {
	// Client writes to the API server. Its rate limits slow down the creation of pods, so they should be generous.
	Client kubernetes.Interface
	// Events records events about owners. Nil means that no events are recorded.
	Events record.EventRecorder
	// Namespaces limits the controller to these namespaces; empty means all.
	Namespaces []string
	// Burst is the maximum number of pods that one reconcile creates or deletes; 0 means 500.
	Burst int
	// Controller are the options of the reconcile loop.
	Controller controller.Options
}

// NewReplicaSet returns a controller for ReplicaSets. Its informers come from factory, which the
// caller starts; they are shared with other users of the same scope.
func NewReplicaSet(factory *tidings.Factory, opts Options) (*controller.Controller, error) {
	return build(factory, opts, "replicaset", replicaSets(opts.Client))
}

// NewReplicationController returns a controller for ReplicationControllers; see NewReplicaSet.
func NewReplicationController(factory *tidings.Factory, opts Options) (*controller.Controller, error) {
	return build(factory, opts, "replicationcontroller", replicationControllers(opts.Client))
}

func build[O object.Object](factory *tidings.Factory, opts Options, name string, k kind[O]) (*controller.Controller, error) {
	if opts.Client == nil {
		return nil, errors.New(name + " controller: Options.Client is missing")
	}
	if opts.Burst < 0 {
		return nil, fmt.Errorf("%s controller: Options.Burst is %d; it must not be negative", name, opts.Burst)
	}
	scope := tidings.Scope{Namespaces: opts.Namespaces, Trim: tidings.Trim{tidings.ManagedFields}}
	owners, err := tidings.Informer[O](factory, scope)
	if err != nil {
		return nil, fmt.Errorf("%s controller: %w", name, err)
	}
	pods, err := tidings.Informer[*corev1.Pod](factory, scope)
	if err != nil {
		return nil, fmt.Errorf("%s controller: %w", name, err)
	}
	e := newEngine(k, owners, pods, opts)
	c := controller.New(name, e.reconcile, opts.Controller)
	err = errors.Join(controller.WatchKeys(c, owners), controller.Watch(c, pods, e.mapPod, notResync))
	return c, err
}
