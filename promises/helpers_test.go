package promises_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tidings/tidings"
	"github.com/tidings/tidings/object"
	"github.com/tidings/tidings/source"
)

type pod = *corev1.Pod

// The default logger would clutter the output of tests.
func init() { slog.SetDefault(slog.New(slog.DiscardHandler)) }

// cluster is a source of pods that a test writes to. It lists and watches what has been written, in order, and
// does not involve HTTP, which the tests of the source package cover.
type cluster struct {
	mu      sync.Mutex
	version int
	pods    map[object.Key]pod
	history []source.Event[pod]
	changed chan struct{} // closed and replaced by every write
	lists   int
	sent    []source.Event[pod] // to be sent as they are
	failure error               // what lists and watches answer while it is set
	// broken are objects that cannot be decoded; the cluster reports them as a source does.
	undecodable map[object.Key]bool
	broken      int // grows when running watches are to end
}

func newCluster() *cluster {
	return &cluster{pods: map[object.Key]pod{}, changed: make(chan struct{})}
}

func newPod(namespace, name string) pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
}

// write stores p with the next version, as an update if it exists.
func (c *cluster) write(p pod) pod {
	c.mu.Lock()
	defer c.mu.Unlock()
	p = p.DeepCopy()
	known, exists := c.pods[object.KeyOf(p)]
	kind := source.Added
	if exists {
		kind, p.UID = source.Modified, known.UID
	} else {
		p.UID = types.UID(fmt.Sprintf("uid-%d", c.version+1))
	}
	return c.record(kind, p)
}

// remove deletes the pod under key.
func (c *cluster) remove(key object.Key) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if p, ok := c.pods[key]; ok {
		c.record(source.Deleted, p.DeepCopy())
	}
}

// record makes p the next event. The caller holds mu.
func (c *cluster) record(kind source.EventType, p pod) pod {
	c.version++
	p.ResourceVersion = strconv.Itoa(c.version)
	c.pods[object.KeyOf(p)] = p
	if kind == source.Deleted {
		delete(c.pods, object.KeyOf(p))
	}
	event := source.Event[pod]{Type: kind, Object: p, ResourceVersion: p.ResourceVersion}
	if c.undecodable[object.KeyOf(p)] {
		event = source.Event[pod]{Type: source.Invalid, ResourceVersion: p.ResourceVersion, Err: c.objectError(p, kind)}
	}
	c.history = append(c.history, event)
	c.wake()
	return p
}

func (c *cluster) objectError(p pod, event source.EventType) *source.ObjectError {
	return &source.ObjectError{
		Key: object.KeyOf(p), UID: string(p.UID), ResourceVersion: p.ResourceVersion, Event: event, Err: errors.New("cannot be decoded"),
	}
}

// spoil makes a pod undecodable, or decodable again.
func (c *cluster) spoil(key object.Key, spoilt bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.undecodable == nil {
		c.undecodable = map[object.Key]bool{}
	}
	c.undecodable[key] = spoilt
}

// restore goes back to an earlier state of the cluster, like a restore from a backup. Running watches end.
func (c *cluster) restore(version int, pods ...pod) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.version, c.history, c.pods = version, nil, map[object.Key]pod{}
	for _, p := range pods {
		c.pods[object.KeyOf(p)] = p
	}
	c.broken++
	c.wake()
}

func (c *cluster) wake() {
	close(c.changed)
	c.changed = make(chan struct{})
}

// send appends an event to the history unchanged.
func (c *cluster) send(event source.Event[pod]) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.version++
	c.sent = append(c.sent, event)
	c.wake()
}

// forget drops the history, so that older watches cannot be resumed, and ends running watches.
func (c *cluster) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.history = nil
	c.broken++
	c.wake()
}

func (c *cluster) fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.failure = err
	c.broken++
	c.wake()
}

func (c *cluster) listed() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.lists
}

// List lists all pods in no particular order.
func (c *cluster) List(_ context.Context, opts source.ListOptions[pod], each func(pod) error) (source.ListResult, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.failure != nil {
		return source.ListResult{}, c.failure
	}
	c.lists++
	for key, p := range c.pods {
		if c.undecodable[key] {
			opts.Skip(c.objectError(p, 0))
			continue
		}
		if err := each(p); err != nil {
			return source.ListResult{}, err
		}
	}
	return source.ListResult{ResourceVersion: strconv.Itoa(c.version)}, nil
}

// Watch starts after the given version.
func (c *cluster) Watch(ctx context.Context, opts source.WatchOptions[pod]) (source.Stream[pod], error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.failure != nil {
		return nil, c.failure
	}
	if opts.SendInitialEvents {
		return nil, invalid("sendInitialEvents: forbidden")
	}
	after, _ := strconv.Atoi(opts.ResourceVersion)
	if after > c.version {
		return nil, tooLarge()
	}
	if after < c.version-len(c.history) { // what follows was forgotten while nobody watched
		return nil, expired()
	}
	ctx, cancel := context.WithCancel(ctx)
	return &clusterWatch{cluster: c, ctx: ctx, cancel: cancel, after: after, broken: c.broken}, nil
}

type clusterWatch struct {
	cluster *cluster
	ctx     context.Context
	cancel  context.CancelFunc
	after   int
	broken  int
}

func (w *clusterWatch) Next(buf []source.Event[pod]) ([]source.Event[pod], error) {
	for {
		events, changed, err := w.pending()
		if err != nil || len(events) > 0 {
			return append(buf, events...), err
		}
		select {
		case <-changed:
		case <-w.ctx.Done():
			return buf, io.EOF
		}
	}
}

func (w *clusterWatch) pending() ([]source.Event[pod], <-chan struct{}, error) {
	c := w.cluster
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.broken != w.broken {
		if first := len(c.history); c.failure == nil && (first == 0 || w.after < c.version-first) {
			return nil, nil, expired()
		}
		return nil, nil, io.EOF
	}
	if sent := c.sent; len(sent) > 0 {
		c.sent, w.after = nil, c.version
		return sent, nil, nil
	}
	i := slices.IndexFunc(c.history, func(e source.Event[pod]) bool {
		v, _ := strconv.Atoi(e.ResourceVersion)
		return v > w.after
	})
	if i < 0 {
		return nil, c.changed, nil
	}
	w.after = c.version
	return slices.Clone(c.history[i:]), nil, nil
}

func (w *clusterWatch) Close() error {
	w.cancel()
	return nil
}

// start runs an informer over c until the test ends, and checks that it leaves nothing behind.
func start(t *testing.T, from source.ListerWatcher[pod], opts tidings.InformerOptions[pod]) *tidings.SharedInformer[pod] {
	t.Helper()
	opts.Name = "pods"
	inf, err := tidings.NewInformer[pod](from, opts)
	if err != nil {
		t.Fatal(err)
	}
	if err := inf.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := inf.Stop(ctx); err != nil {
			t.Error(err)
		}
	})
	return inf
}

func mustAdd(t *testing.T, inf *tidings.SharedInformer[pod], h tidings.Handler[pod], opts tidings.HandlerOptions) *tidings.Registration {
	t.Helper()
	reg, err := inf.AddHandler(h, opts)
	if err != nil {
		t.Fatal(err)
	}
	return reg
}
