package simulation

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/tidings/tidings"
	"github.com/tidings/tidings/controller"
	"github.com/tidings/tidings/object"
)

// operator gives each parent its children: the number and the value that it wants. Their names are
// generated, so acting twice on a stale cache creates too many.
type operator[T object.Object] struct {
	process           *process
	client            kubernetes.Interface
	tracked           bool // the client's transport notes its writes
	parents, children *tidings.SharedInformer[T]
	byParent          *tidings.Index[T]
	convert           func(*corev1.ConfigMap) (T, error)
	term              *term
}

// parentOf returns the key of a child's parent.
func parentOf(o object.Object) object.Key {
	return object.Key{Namespace: o.GetNamespace(), Name: o.GetLabels()[parentLabel]}
}

func (p *operator[T]) reconcile(ctx context.Context, key object.Key) (controller.Result, error) {
	defer p.term.work(key)()
	p.term.check(key, "parents", seenBy(p.parents))
	p.term.check(key, "children", seenBy(p.children))
	children := slices.Collect(p.byParent.All(key.String()))
	parent, ok := p.parents.Get(key)
	if !ok {
		return controller.Result{}, p.remove(ctx, key, children)
	}
	want, err := strconv.Atoi(parent.GetAnnotations()[wantAnnotation])
	if err != nil {
		return controller.Result{}, controller.Terminal(err)
	}
	if len(children) > want {
		err = p.remove(ctx, key, children[want:])
		children = children[:want]
	}
	for range want - len(children) {
		err = errors.Join(err, p.create(ctx, key, parent))
	}
	for _, child := range children {
		err = errors.Join(err, p.update(ctx, key, p.children, "children", child, valueAnnotation, parent.GetAnnotations()[valueAnnotation]))
	}
	if err == nil {
		err = p.update(ctx, key, p.parents, "parents", parent, appliedAnnotation, parent.GetAnnotations()[valueAnnotation])
	}
	return controller.Result{}, err
}

func (p *operator[T]) create(ctx context.Context, key object.Key, parent T) error {
	created, err := p.client.CoreV1().ConfigMaps(key.Namespace).Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		GenerateName: key.Name + "-", Labels: map[string]string{roleLabel: "child", parentLabel: key.Name},
		Annotations: map[string]string{valueAnnotation: parent.GetAnnotations()[valueAnnotation]},
	}}, metav1.CreateOptions{})
	return p.wrote(ctx, key, p.children, "children", created, err)
}

// update sets an annotation of a cached object, unless it already has the value. It fails if the
// object has changed since.
func (p *operator[T]) update(ctx context.Context, key object.Key, c *tidings.SharedInformer[T], cache string, o T, note, value string) error {
	if o.GetAnnotations()[note] == value {
		return nil
	}
	annotations := maps.Clone(o.GetAnnotations())
	annotations[note] = value
	written, err := p.client.CoreV1().ConfigMaps(key.Namespace).Update(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Name: o.GetName(), Namespace: o.GetNamespace(), UID: o.GetUID(), ResourceVersion: o.GetResourceVersion(),
		Labels: o.GetLabels(), Annotations: annotations,
	}}, metav1.UpdateOptions{})
	if apierrors.IsNotFound(err) {
		return nil // its deletion will requeue the key
	}
	return p.wrote(ctx, key, c, cache, written, err)
}

// wrote reports a successful write.
func (p *operator[T]) wrote(ctx context.Context, key object.Key, c *tidings.SharedInformer[T], cache string, written *corev1.ConfigMap, err error) error {
	if err != nil {
		return err
	}
	converted, err := p.convert(written)
	if err != nil {
		return err
	}
	p.term.wrote(key, cache, written, c.ResourceVersionIn(key.Namespace))
	if !p.tracked {
		controller.Wrote(ctx, c, converted)
	}
	return nil
}

func (p *operator[T]) remove(ctx context.Context, key object.Key, children []T) (err error) {
	for _, child := range children {
		uid := child.GetUID()
		failed := p.client.CoreV1().ConfigMaps(key.Namespace).Delete(ctx, child.GetName(), metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}})
		switch {
		case failed == nil:
			p.term.deleted(key, child, p.children.ResourceVersionIn(key.Namespace))
			if !p.tracked {
				controller.Deleted(ctx, p.children, child)
			}
		case !apierrors.IsNotFound(failed):
			err = errors.Join(err, failed)
		}
	}
	return err
}

// ledger records which process works on what, and what it has written.
type ledger struct {
	r       *run
	mu      sync.Mutex
	working map[work]bool // reconciles in progress
	terms   []*term
}

// work is a reconcile.
type work struct {
	process *process
	key     object.Key
}

func newLedger(r *run) *ledger { return &ledger{r: r, working: map[work]bool{}} }

// term is the part of the ledger for one process's term of leadership.
type term struct {
	ledger  *ledger
	process *process
	// writes holds, by key, the writes whose responses arrived, guarded by the ledger's lock.
	writes map[object.Key][]ownWrite
	worked bool
}

// ownWrite is a write, or the deletion of an object with this uid.
type ownWrite struct {
	cache        string
	key          object.Key
	uid, version string
	deleted      bool
	cacheAt      string // version of the cache when the write was reported
}

func (l *ledger) begin(p *process) *term {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := &term{ledger: l, process: p, writes: map[object.Key][]ownWrite{}}
	l.terms = append(l.terms, t)
	return t
}

// forget drops all writes: a restore may have undone them.
func (l *ledger) forget() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, t := range l.terms {
		clear(t.writes)
	}
}

// work records the start of a reconcile. The returned function records its end.
func (t *term) work(key object.Key) (end func()) {
	l := t.ledger
	l.mu.Lock()
	defer l.mu.Unlock()
	for other := range l.working {
		switch {
		case other.process.dead.Load():
		case other.process != t.process:
			l.r.diverge("%s works on %v while %s works on %v", t.process.id, key, other.process.id, other.key)
		case other.key == key:
			l.r.diverge("%s works on %v twice at once", t.process.id, key)
		}
	}
	l.working[work{t.process, key}] = true
	l.r.reconciled(!t.worked)
	t.worked = true
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.working, work{t.process, key})
	}
}

func (t *term) wrote(key object.Key, cache string, o object.Object, cacheAt string) {
	t.add(key, ownWrite{cache: cache, key: object.KeyOf(o), uid: string(o.GetUID()), version: o.GetResourceVersion(), cacheAt: cacheAt})
}

func (t *term) deleted(key object.Key, o object.Object, cacheAt string) {
	t.add(key, ownWrite{cache: "children", key: object.KeyOf(o), uid: string(o.GetUID()), deleted: true, cacheAt: cacheAt})
}

func (t *term) add(key object.Key, w ownWrite) {
	t.ledger.mu.Lock()
	defer t.ledger.mu.Unlock()
	t.writes[key] = append(t.writes[key], w)
}

// seenBy returns a function that reports whether a cache has seen a write, or has gone back since, as after a restore.
func seenBy[T object.Object](c *tidings.SharedInformer[T]) func(ownWrite) bool {
	return func(w ownWrite) bool {
		if object.OlderResourceVersion(c.ResourceVersionIn(w.key.Namespace), w.cacheAt) {
			return true
		}
		o, held := c.Get(w.key)
		if w.deleted {
			return !held || string(o.GetUID()) != w.uid
		}
		return held && !object.OlderResourceVersion(o.GetResourceVersion(), w.version) ||
			!object.OlderResourceVersion(c.ResourceVersionIn(w.key.Namespace), w.version)
	}
}

// check records the writes for a key that the cache has not seen, and drops the others.
func (t *term) check(key object.Key, cache string, seen func(ownWrite) bool) {
	t.ledger.mu.Lock()
	defer t.ledger.mu.Unlock()
	t.writes[key] = slices.DeleteFunc(t.writes[key], func(w ownWrite) bool {
		if w.cache != cache {
			return false
		}
		if !seen(w) {
			t.ledger.r.diverge("%s reconciles %v although its cache of %s lacks %s", t.process.id, key, cache, fmt.Sprintf("%+v", w))
		}
		return true
	})
}
