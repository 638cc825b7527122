package server

import (
	"fmt"
	"iter"
	"math/rand/v2"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/tidings/tidings/bench/internal/corpus"
	"github.com/tidings/tidings/internal/wire/wiretest"
)

const (
	// chunk is the number of pods that are generated together, as those of one cluster.
	chunk = 5_000
	// changedChunks is the number of chunks that the events of Rate change.
	changedChunks = 50
)

// newStreamed returns the content of a server whose list is generated while it is sent.
func newStreamed(c Config) (*content, error) {
	out := &content{
		encoding: c.Encoding, kind: corpus.Pods, initial: map[string]iter.Seq[[]byte]{}, phases: map[Phase]iter.Seq[[]byte]{},
		plan: Plan{Objects: c.Objects, Last: map[Phase]uint64{}, Events: map[Phase]int{}},
	}
	out.initial[""] = func(yield func([]byte) bool) {
		for first := 0; first < c.Objects; first += chunk {
			for _, pod := range makeChunk(first, c.Objects) {
				if !yield(mustEncode(c.Encoding, watch.Added, pod)) {
					return
				}
			}
		}
		yield(mustEncode(c.Encoding, watch.Bookmark, out.initialEnd()))
	}
	out.addScattered(c)
	return out, nil
}

// makeChunk returns the pods from first on, with unique names.
func makeChunk(first, objects int) []*corev1.Pod {
	pods := wiretest.Pods(min(chunk, objects-first), uint64(first+1))
	for i, pod := range pods {
		pod.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}
		pod.Name = fmt.Sprintf("%s-%d", pod.Name, first+i)
	}
	return pods
}

// addScattered adds the events of Rate: changes of pods all over the list.
func (c *content) addScattered(size Config) {
	w, rng := corpus.NewWriter(firstVersion), rand.New(rand.NewPCG(4, 4))
	chunks := (size.Objects + chunk - 1) / chunk
	var changed []*corev1.Pod
	for i := range min(changedChunks, chunks) {
		pods := makeChunk(i*chunks/min(changedChunks, chunks)*chunk, size.Objects)
		for range size.Rate/min(changedChunks, chunks) + 1 {
			changed = append(changed, pods[rng.IntN(len(pods))])
		}
	}
	rng.Shuffle(len(changed), func(i, j int) { changed[i], changed[j] = changed[j], changed[i] })
	events := &frames{}
	for _, pod := range changed[:size.Rate] {
		w.Status(pod)
		events.append(mustEncode(c.encoding, watch.Modified, pod))
	}
	c.phases[Rate], c.plan.Last[Rate], c.plan.Events[Rate] = events.all(), w.Version(), size.Rate
}

func mustEncode(e Encoding, kind watch.EventType, obj corpus.Object) []byte {
	frame, err := e.Encode(kind, obj)
	if err != nil {
		panic(err) // pods always encode
	}
	return frame
}
