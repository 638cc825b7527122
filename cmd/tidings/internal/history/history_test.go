package history

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tidings/tidings/source"
	"github.com/tidings/tidings/source/recording"
)

// script is a source that lists and watches what it is told.
type script struct {
	list    []object
	version string
	batches [][]source.Event[object]
	end     error
}

func (s *script) List(_ context.Context, _ source.ListOptions[object], each func(object) error) (source.ListResult, error) {
	for _, o := range s.list {
		if err := each(o); err != nil {
			return source.ListResult{}, err
		}
	}
	return source.ListResult{ResourceVersion: s.version}, nil
}

func (s *script) Watch(context.Context, source.WatchOptions[object]) (source.Stream[object], error) {
	return &stream{script: s}, nil
}

type stream struct {
	*script
	at int
}

func (s *stream) Next(buf []source.Event[object]) ([]source.Event[object], error) {
	if s.at == len(s.batches) {
		return buf, s.end
	}
	time.Sleep(time.Second)
	s.at++
	return append(buf, s.batches[s.at-1]...), nil
}

func (s *stream) Close() error { return nil }

func pod(name, version string) object {
	o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Pod"}}
	o.SetName(name)
	o.SetResourceVersion(version)
	return o
}

// record records two lists and watches: the first watch ends with an error, the second with the program.
func record(t *testing.T, first, second *script) *recording.Recording {
	t.Helper()
	var file bytes.Buffer
	recorder, err := recording.NewRecorder(&file, recording.Options{})
	if err != nil {
		t.Fatal(err)
	}
	current := &script{}
	scope := source.Scope{Resource: schema.GroupVersionResource{Version: "v1", Resource: "pods"}}
	src := recording.Record(recorder, source.ListerWatcher[object](current), scope)
	for _, s := range []*script{first, second} {
		*current = *s
		if _, err := src.List(t.Context(), source.ListOptions[object]{}, func(object) error { return nil }); err != nil {
			t.Fatal(err)
		}
		watch, err := src.Watch(t.Context(), source.WatchOptions[object]{ResourceVersion: s.version})
		if err != nil {
			t.Fatal(err)
		}
		for err == nil {
			_, err = watch.Next(nil)
		}
		_ = watch.Close()
	}
	if err := recorder.Close(); err != nil {
		t.Fatal(err)
	}
	rec, err := recording.Read(bytes.NewReader(file.Bytes()), int64(file.Len()))
	if err != nil {
		t.Fatal(err)
	}
	return rec
}

// TestOf: the history has the times of the recording, the changes of relists, and no fault that was not recorded.
func TestOf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		first := &script{
			list: []object{pod("a", "1"), pod("b", "2")}, version: "5",
			batches: [][]source.Event[object]{{
				{Type: source.Modified, Object: pod("a", "6"), ResourceVersion: "6"},
				{Type: source.Modified, Object: pod("a", "6"), ResourceVersion: "6"}, // again
			}, {{Type: source.Added, Object: pod("c", "7"), ResourceVersion: "7"}}},
			end: fmt.Errorf("read: %w", io.ErrUnexpectedEOF),
		}
		second := &script{
			list: []object{pod("a", "8"), pod("c", "7")}, version: "9",
			batches: [][]source.Event[object]{{{Type: source.Deleted, Object: pod("a", "10"), ResourceVersion: "10"}}},
			end:     source.ErrClosed,
		}
		rec := record(t, first, second)
		time.Sleep(24 * time.Hour) // it is read another day
		var got []string
		for item, err := range Of(rec) {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, describe(item, began))
		}
		want := []string{
			"0s initial a", "0s initial b", "0s synced 2 at 5",
			"1s a 1 → 6", "2s added c", "2s failing: the connection broke: unexpected EOF",
			"2s reconnected", "2s a 6 → 8", "2s deleted b unseen", "2s relisted 2 at 9",
			"3s deleted a",
		}
		if !slices.Equal(got, want) {
			t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	})
}

func describe(i Item, began time.Time) string {
	at := fmt.Sprint(i.Time.Sub(began).Round(time.Millisecond), " ")
	switch {
	case i.Kind == Synced:
		return at + fmt.Sprintf("synced %d at %s", i.Objects, i.Version)
	case i.Kind == Relisted:
		return at + fmt.Sprintf("relisted %d at %s", i.Objects, i.Version)
	case i.Kind == Reconnected:
		return at + "reconnected"
	case i.Kind == Failing:
		return at + "failing: " + i.Explain()
	case i.Initial:
		return at + "initial " + i.After.GetName()
	case i.Before == nil:
		return at + "added " + i.After.GetName()
	case i.After == nil && i.Unknown:
		return at + "deleted " + i.Before.GetName() + " unseen"
	case i.After == nil:
		return at + "deleted " + i.Before.GetName()
	}
	return at + i.After.GetName() + " " + i.Before.GetResourceVersion() + " → " + i.After.GetResourceVersion()
}

// TestOldFile: a recording of an earlier release has no time of day, and is read all the same.
func TestOldFile(t *testing.T) {
	const file = "" +
		`{"t":0,"header":{"format":"tidings-recording","version":1}}` + "\n" +
		`{"t":1,"collection":{"version":"v1","resource":"pods"}}` + "\n" +
		`{"t":2,"c":1,"list":{"of":1}}` + "\n" +
		`{"t":3,"c":1,"item":{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a","resourceVersion":"1"}}}` + "\n" +
		`{"t":4,"c":1,"result":{"resourceVersion":"1"}}` + "\n" +
		`{"t":5,"end":"closed"}` + "\n"
	var data []byte
	for line := range strings.Lines(file) {
		data = append(data, sum(strings.TrimSuffix(line, "\n"))...)
	}
	rec, err := recording.Read(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	if _, exact := rec.Began(); exact {
		t.Error("it claims to know when it began")
	}
	n := 0
	for _, err := range Of(rec) {
		if err != nil {
			t.Fatal(err)
		}
		n++
	}
	if n != 2 {
		t.Errorf("%d items, want an object and synced", n)
	}
	if !errors.Is(rec.Incomplete(), nil) {
		t.Error(rec.Incomplete())
	}
}

// sum returns an entry as a line of a recording.
func sum(entry string) string {
	return fmt.Sprintf("%08x %s\n", crc32.Checksum([]byte(entry), crc32.MakeTable(crc32.Castagnoli)), entry)
}
