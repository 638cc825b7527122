package measure

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/tidings/tidings/bench/internal/corpus"
	"github.com/tidings/tidings/bench/internal/engine"
	"github.com/tidings/tidings/bench/internal/server"
)

// Folded reads every object of an informer with a budget once, in random order, and then all of them in a list.
const Folded server.Phase = "folded"

// folded measures the cost of reading folded objects. If the budget is small, few of them stay open after the first reads.
func (r *run) folded(context.Context) error {
	cache, ok := r.running.(engine.Folding)
	if !ok {
		return errors.New("the engine folds nothing")
	}
	objects, err := r.Config.Corpus.Make(r.plan.Objects)
	if err != nil {
		return err
	}
	mix(objects)
	keys := keysOf(objects)
	clear(objects)
	before := heap().HeapAlloc
	open, folded, problem := cache.Folded()
	gets, err := spend("", func() error {
		for _, key := range keys {
			if !cache.Get(key[0], key[1]) {
				return fmt.Errorf("there is no %s/%s", key[0], key[1])
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	list, err := spend(r.Profiles[Folded], func() error {
		if got := cache.List(); got != len(keys) {
			return fmt.Errorf("the list has %d objects of %d", got, len(keys))
		}
		return nil
	})
	if err != nil {
		return err
	}
	r.out["get each"], r.out["list each"] = per(gets.cpu, len(keys)), per(list.cpu, len(keys))
	r.out["growth of a list"] = 100 * (float64(heap().HeapAlloc)/float64(before) - 1)
	r.out["folded part"] = 100 * float64(folded) / float64(max(1, open+folded))
	if problem != "" {
		r.out["over budget, and says so"] = 1
	}
	return nil
}

// keysOf returns the namespaces and names of objects. They share one string: otherwise the collector would mark more strings than the cache has
// objects.
func keysOf(objects []corpus.Object) [][2]string {
	var all strings.Builder
	for _, obj := range objects {
		all.WriteString(obj.GetNamespace() + obj.GetName())
	}
	keys, rest := make([][2]string, len(objects)), all.String()
	for i, obj := range objects {
		namespace, name := len(obj.GetNamespace()), len(obj.GetName())
		keys[i] = [2]string{rest[:namespace], rest[namespace : namespace+name]}
		rest = rest[namespace+name:]
	}
	return keys
}

// Decoding measures the generated decoder, on the pods of a corpus.
type Decoding struct {
	Corpus  corpus.Name
	Objects int
}

// Run decodes every object twice: in memory order, like a list, and in the order of the reads of Folded.
func (d Decoding) Run(context.Context) (Metrics, error) {
	objects, err := d.Corpus.Make(d.Objects)
	if err != nil {
		return nil, err
	}
	type generated interface {
		Marshal() ([]byte, error)
		Unmarshal(data []byte) error
	}
	encoded := make([][]byte, len(objects))
	for i, obj := range objects {
		if encoded[i], err = obj.(generated).Marshal(); err != nil {
			return nil, fmt.Errorf("decoding: %w", err)
		}
	}
	clear(objects)
	out := Metrics{}
	for _, order := range []string{"decode each", "decode each at random"} {
		heap()
		c, err := spend("", func() error {
			for _, data := range encoded {
				if err := d.Corpus.New().(generated).Unmarshal(data); err != nil {
					return fmt.Errorf("decoding: %w", err)
				}
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
		out[order] = per(c.cpu, len(encoded))
		mix(encoded)
	}
	return out, nil
}

// mix shuffles slices of equal length into the same random order.
func mix[E any](s []E) {
	rand.New(rand.NewPCG(3, 3)).Shuffle(len(s), func(i, j int) { s[i], s[j] = s[j], s[i] })
}
