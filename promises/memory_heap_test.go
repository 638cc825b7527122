package promises_test

import (
	"context"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"unsafe"
	"weak"

	"k8s.io/apimachinery/pkg/types"

	"github.com/tidings/tidings"
	"github.com/tidings/tidings/internal/testseed"
	"github.com/tidings/tidings/internal/wire/wiretest"
	"github.com/tidings/tidings/source"
)

// blocks is a source of pods whose strings share one block of memory each, as a decoder makes them.
type blocks struct {
	events chan source.Event[pod]
	alive  []weak.Pointer[[blockSize]byte]
}

const blockSize = 1 << 14

// fewBlocks may be alive: the store's version is part of the last one, and stacks may refer to another.
const fewBlocks = 5

func (b *blocks) List(context.Context, source.ListOptions[pod], func(pod) error) (source.ListResult, error) {
	return source.ListResult{ResourceVersion: "1"}, nil
}

func (b *blocks) Watch(ctx context.Context, _ source.WatchOptions[pod]) (source.Stream[pod], error) {
	ctx, cancel := context.WithCancel(ctx)
	return &blockStream{b, ctx, cancel}, nil
}

type blockStream struct {
	*blocks
	ctx    context.Context
	cancel context.CancelFunc
}

func (s *blockStream) Close() error { s.cancel(); return nil }

func (s *blockStream) Next(buf []source.Event[pod]) ([]source.Event[pod], error) {
	select {
	case ev := <-s.events:
		return append(buf, ev), nil
	case <-s.ctx.Done():
		return buf, io.EOF
	}
}

// send sends an event for a pod whose strings are in their own block.
func (b *blocks) send(kind source.EventType, i, version int) {
	block := new([blockSize]byte)
	b.alive = append(b.alive, weak.Make(block))
	rest := block[:]
	text := func(s string) string {
		n := copy(rest, s)
		part := unsafe.String(&rest[0], n)
		rest = rest[n:]
		return part
	}
	p := newPod(text("shop"), text(fmt.Sprintf("web-%d", i)))
	p.UID, p.ResourceVersion = types.UID(text(fmt.Sprintf("uid-%d", i))), text(fmt.Sprint(version))
	p.Spec.NodeName, p.Labels = text("node"), map[string]string{text("app"): text("web")}
	p.Annotations = map[string]string{text("note"): text(strings.Repeat("x", 5000))}
	b.events <- source.Event[pod]{Type: kind, Object: p, ResourceVersion: p.ResourceVersion}
}

// living counts the blocks that are still referenced.
func (b *blocks) living() (n int) {
	runtime.GC()
	runtime.GC()
	for _, block := range b.alive {
		if block.Value() != nil {
			n++
		}
	}
	return n
}

// TestKeysKeepNoObjectAlive creates, changes and deletes pods that are folded immediately. Nothing
// that an informer remembers of them may keep the original memory in use.
func TestKeysKeepNoObjectAlive(t *testing.T) {
	const pods = 200
	for name, budget := range map[string]int64{"no budget": 0, "folded": 1, "all open": 1 << 30} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := &blocks{events: make(chan source.Event[pod])}
				inf, err := tidings.NewInformer[pod](b, tidings.InformerOptions[pod]{
					Name: "pods", Options: tidings.Options{MemoryBudget: budget, NoWatchList: true, NoMutationGuard: true},
				})
				if err != nil {
					t.Fatal(err)
				}
				inf.AddIndex("node", func(p pod) []string { return []string{p.Spec.NodeName} })
				mustAdd(t, inf, tidings.HandlerFuncs[pod]{}, tidings.HandlerOptions{})
				if err := inf.Start(t.Context()); err != nil {
					t.Fatal(err)
				}
				version := 1
				for i := range 3 * pods {
					version++
					b.send(source.Modified, i%pods, version)
				}
				synctest.Wait()
				if n := b.living(); budget == 1 && n > fewBlocks {
					t.Errorf("%d of %d blocks of folded pods are alive", n, len(b.alive))
				}
				for i := range pods {
					version++
					b.send(source.Deleted, i, version)
				}
				synctest.Wait()
				if n := b.living(); n > fewBlocks {
					t.Errorf("%d of %d blocks of deleted pods are alive", n, len(b.alive))
				}
				if err := inf.Stop(context.Background()); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// raceEnabled is set when the race detector is on.
var raceEnabled = false

// TestBudgetCountsTheHeap compares the memory that an informer reports with the heap.
func TestBudgetCountsTheHeap(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector changes what objects take")
	}
	const pods, changes = 2000, 4000
	for name, budget := range map[string]int64{"all folded": 2_500_000, "some open": 5_500_000} {
		t.Run(name, func(t *testing.T) {
			e := newEncodedPods(t, pods, testseed.Seed(t))
			before := wiretest.LiveHeap()
			inf, err := tidings.NewInformer[pod](e, tidings.InformerOptions[pod]{Name: "pods", Options: tidings.Options{MemoryBudget: budget, NoWatchList: true}})
			if err != nil {
				t.Fatal(err)
			}
			inf.AddIndex("node", func(p pod) []string { return []string{p.Spec.NodeName} })
			if err := inf.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := inf.WaitForSync(t.Context()); err != nil {
				t.Fatal(err)
			}
			e.allow <- changes
			e.allow <- 0 // the last change has been applied when the source is asked for more
			counted, took := inf.Status().Memory.Used, wiretest.LiveHeap()-before
			t.Logf("counted %d, took %d", counted, took)
			if off := took - counted; off > budget/10 || off < -budget/10 {
				t.Errorf("%d bytes are counted, the heap has grown by %d", counted, took)
			}
			if err := inf.Stop(context.Background()); err != nil {
				t.Error(err)
			}
		})
	}
}
