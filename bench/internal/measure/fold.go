package measure

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/tidings/tidings/bench/internal/corpus"
	"github.com/tidings/tidings/bench/internal/engine"
	"github.com/tidings/tidings/bench/internal/server"
)

// Folded reads every object of an informer with a budget once, in random order, and then all of them in a list.
const Folded server.Phase = "folded"

// folded measures the cost of reading folded objects. If the budget is small, few of them stay open
// after the first reads.
func (r *run) folded(context.Context) error {
	cache, ok := r.running.(engine.Folding)
	if !ok {
		return errors.New("the engine folds nothing")
	}
	objects, err := r.Config.Corpus.Make(r.plan.Objects)
	if err != nil {
		return err
	}
	encoded, free, err := r.encoded(objects)
	if err != nil {
		return err
	}
	defer func() { _ = free() }()
	mix(objects)
	keys, mixed := keysOf(objects), slices.Clone(encoded)
	clear(objects)
	mix(mixed)
	before := heap().HeapAlloc
	open, folded, problem := cache.Folded()
	gets := func() error {
		for _, key := range keys {
			if !cache.Get(key[0], key[1]) {
				return fmt.Errorf("there is no %s/%s", key[0], key[1])
			}
		}
		return nil
	}
	list := func() error {
		if got := cache.List(); got != len(keys) {
			return fmt.Errorf("the list has %d objects of %d", got, len(keys))
		}
		return nil
	}
	if err := r.measureReads("get", gets, mixed, ""); err != nil {
		return err
	}
	if err := r.measureReads("list", list, encoded, r.Profiles[Folded]); err != nil {
		return err
	}
	r.out["growth of a list"] = 100 * (float64(heap().HeapAlloc)/float64(before) - 1)
	r.out["folded part"] = 100 * float64(folded) / float64(max(1, open+folded))
	if problem != "" {
		r.out["over budget, and says so"] = 1
	}
	return nil
}

// keysOf returns the namespaces and names of objects. They share one string: otherwise the
// collector would mark more strings than the cache has objects.
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

// generated is the generated code of a typed object.
type generated interface {
	Marshal() ([]byte, error)
	Unmarshal(data []byte) error
}

// encoded returns the bytes of typed objects, none for unstructured ones. They are not on the Go
// heap, where they would take five times as much as the folded objects, so that the collector would
// run five times less often.
func (r *run) encoded(objects []corpus.Object) (encoded [][]byte, free func() error, err error) {
	if r.Config.Encoding != server.Protobuf {
		return nil, func() error { return nil }, nil
	}
	encoded = make([][]byte, len(objects))
	total := 0
	for i, obj := range objects {
		if encoded[i], err = obj.(generated).Marshal(); err != nil {
			return nil, nil, fmt.Errorf("encode: %w", err)
		}
		total += len(encoded[i])
	}
	memory, err := newMapping(total)
	if err != nil {
		return nil, nil, err
	}
	rest := memory
	for i, data := range encoded {
		n := copy(rest, data)
		encoded[i], rest = rest[:n:n], rest[n:]
	}
	return encoded, func() error { return syscall.Munmap(memory) }, nil
}

// timesRead is how often every object is read, and decoded.
const timesRead = 2

// measureReads measures reading all objects, and between the reads how long the generated code
// takes to decode their bytes. As both happen in the same process, they have the same heap, and the
// collector runs for both after as much garbage.
func (r *run) measureReads(what string, read func() error, encoded [][]byte, profile string) error {
	var reads, decodes time.Duration
	for range timesRead {
		c, err := spend("", func() error { return r.decode(encoded) })
		if err != nil {
			return err
		}
		decodes += c.cpu
		if c, err = spend(profile, read); err != nil {
			return err
		}
		reads += c.cpu
	}
	r.out[what+" each"] = per(reads, timesRead*r.plan.Objects)
	if len(encoded) > 0 {
		r.out[what+" decoded each"] = per(decodes, timesRead*len(encoded))
	}
	return nil
}

// decode decodes objects with their generated code.
func (r *run) decode(encoded [][]byte) error {
	for _, data := range encoded {
		if err := r.Config.Corpus.New().(generated).Unmarshal(data); err != nil {
			return fmt.Errorf("decode: %w", err)
		}
	}
	return nil
}

// mix shuffles slices of equal length into the same random order.
func mix[E any](s []E) {
	rand.New(rand.NewPCG(3, 3)).Shuffle(len(s), func(i, j int) { s[i], s[j] = s[j], s[i] })
}
