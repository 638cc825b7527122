package moments

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tidings/tidings/cmd/tidings/internal/history"
	"github.com/tidings/tidings/cmd/tidings/internal/news"
	"github.com/tidings/tidings/internal/testseed"
	"github.com/tidings/tidings/source"
	"github.com/tidings/tidings/source/recording"
)

func TestParse(t *testing.T) {
	began := time.Date(2026, 11, 27, 23, 59, 30, 0, time.Local)
	const duration = 5 * time.Minute
	for text, want := range map[string]time.Duration{
		"start": 0, "end": duration, "+90s": 90 * time.Second, "+5m30s": duration, "+0s": 0,
		"23:59": 0, "23:59:31.5": 1500 * time.Millisecond, "00:02": 150 * time.Second, "00:04:31": duration,
		began.Add(time.Minute).UTC().Format(time.RFC3339): time.Minute,
	} {
		if at, err := Parse(text, began, duration); err != nil || !at.Equal(began.Add(want)) {
			t.Errorf("%q: %s, %v", text, at, err)
		}
	}
	for text, want := range map[string]string{
		"noon": "is not a moment", "+x": "is not a moment", "": "is not a moment", "24:00": "is not a moment",
		"00:06": "goes from 2026-11-27 23:59:30 to 2026-11-28 00:04:30", "+7m": "is not in the recording",
		"23:58": "is not in the recording", "2026-11-26T10:00:00Z": "is not in the recording",
	} {
		if at, err := Parse(text, began, duration); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %s, %v", text, at, err)
		}
	}
}

// script is a source that lists pods, and then has an event every second.
type script struct {
	list   []*unstructured.Unstructured
	events []source.Event[*unstructured.Unstructured]
}

func (s *script) List(
	_ context.Context, _ source.ListOptions[*unstructured.Unstructured], each func(*unstructured.Unstructured) error,
) (source.ListResult, error) {
	for _, o := range s.list {
		if err := each(o); err != nil {
			return source.ListResult{}, err
		}
	}
	return source.ListResult{ResourceVersion: "1000"}, nil
}

func (s *script) Watch(
	context.Context, source.WatchOptions[*unstructured.Unstructured],
) (source.Stream[*unstructured.Unstructured], error) {
	return s, nil
}

func (s *script) Next(buf []source.Event[*unstructured.Unstructured]) (
	[]source.Event[*unstructured.Unstructured], error,
) {
	if len(s.events) == 0 {
		return buf, source.ErrClosed
	}
	time.Sleep(time.Second)
	next := s.events[0]
	s.events = s.events[1:]
	return append(buf, next), nil
}

func (s *script) Close() error { return nil }

// record records the script.
func record(t *testing.T, s *script) *recording.Recording {
	t.Helper()
	var file bytes.Buffer
	recorder, err := recording.NewRecorder(&file, recording.Options{})
	if err != nil {
		t.Fatal(err)
	}
	scope := source.Scope{Resource: schema.GroupVersionResource{Version: "v1", Resource: "pods"}}
	src := recording.Record(recorder, source.ListerWatcher[*unstructured.Unstructured](s), scope)
	ignore := func(*unstructured.Unstructured) error { return nil }
	if _, err := src.List(t.Context(), source.ListOptions[*unstructured.Unstructured]{}, ignore); err != nil {
		t.Fatal(err)
	}
	opts := source.WatchOptions[*unstructured.Unstructured]{ResourceVersion: "1000"}
	watch, err := src.Watch(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	for err == nil {
		_, err = watch.Next(nil)
	}
	_ = watch.Close()
	if err := recorder.Close(); err != nil {
		t.Fatal(err)
	}
	rec, err := recording.Read(bytes.NewReader(file.Bytes()), int64(file.Len()))
	if err != nil {
		t.Fatal(err)
	}
	return rec
}

// state is what the pods are, by name.
type state map[string]*unstructured.Unstructured

// randomScript returns a script, and what the pods are after each second of it. Versions go back where a pod is made
// anew, as on a server that was restored from a backup.
func randomScript(rng *rand.Rand, seconds int) (*script, []state) {
	s, now := &script{}, state{}
	pod := func(name string, version, value int, uid types.UID) *unstructured.Unstructured {
		o := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "v1", "kind": "Pod", "spec": map[string]any{"value": int64(value)},
		}}
		o.SetName(name)
		o.SetUID(uid)
		o.SetResourceVersion(fmt.Sprint(version))
		return o
	}
	for n := range rng.IntN(4) {
		name := fmt.Sprint("pod-", n)
		now[name] = pod(name, 1+rng.IntN(1000), 0, types.UID(name))
		s.list = append(s.list, now[name])
	}
	states := []state{maps.Clone(now)}
	for n := range seconds {
		name := fmt.Sprint("pod-", rng.IntN(6))
		before, known := now[name]
		event := source.Event[*unstructured.Unstructured]{Type: source.Added}
		switch {
		case !known:
			event.Object = pod(name, 1+rng.IntN(1000), rng.IntN(3), types.UID(fmt.Sprint(name, "-", n)))
			now[name] = event.Object
		case rng.IntN(4) == 0:
			event.Type, event.Object = source.Deleted, before
			delete(now, name)
		default:
			event.Type, event.Object = source.Modified, pod(name, 2000+n, rng.IntN(3), before.GetUID())
			now[name] = event.Object
		}
		event.ResourceVersion = fmt.Sprint(2000 + n)
		s.events = append(s.events, event)
		states = append(states, maps.Clone(now))
	}
	return s, states
}

func text(o *unstructured.Unstructured) string {
	if o == nil {
		return "nothing"
	}
	data, err := json.Marshal(o.Object)
	if err != nil {
		return err.Error()
	}
	return string(data)
}

// TestPast compares what was at random moments, and what differs between them, with what the script says.
func TestPast(t *testing.T) {
	testseed.Each(t, 4, func(t *testing.T, seed uint64) {
		synctest.Test(t, func(t *testing.T) {
			rng, began := rand.New(rand.NewPCG(seed, 0)), time.Now()
			s, states := randomScript(rng, 300)
			rec := record(t, s)
			for range 12 {
				from, to := rng.IntN(len(states)), rng.IntN(len(states))
				from, to = min(from, to), max(from, to)
				at := from + rng.IntN(to-from+1)
				moment := func(second int) time.Time { return began.Add(time.Duration(second) * time.Second) }
				past, err := Read(rec, history.Selection{}, moment(from), moment(to))
				if err != nil {
					t.Fatal(err)
				}
				for _, o := range past.Objects() {
					got, err := o.At(moment(at))
					if want := states[at][o.key.Name]; err != nil || text(got) != text(want) {
						t.Errorf("%s after %d s of %d to %d: %s, %v; want %s", o.key, at, from, to, text(got), err,
							text(want))
					}
				}
				got := map[string]string{}
				for e, err := range Between(rec, history.Selection{}, moment(from), moment(to), news.Options{}) {
					if err != nil {
						t.Fatal(err)
					}
					got[e.Name] = string(e.Type)
				}
				if want := differences(states[from], states[to]); !maps.Equal(got, want) {
					t.Errorf("from %d to %d: %v, want %v", from, to, got, want)
				}
			}
		})
	})
}

// differences returns what happened to the pods that differ.
func differences(before, after state) map[string]string {
	found := map[string]string{}
	for name, b := range before {
		switch a := after[name]; {
		case a == nil:
			found[name] = "DELETED"
		case a.GetUID() != b.GetUID():
			found[name] = "REPLACED"
		case text(&unstructured.Unstructured{Object: map[string]any{"spec": a.Object["spec"]}}) !=
			text(&unstructured.Unstructured{Object: map[string]any{"spec": b.Object["spec"]}}):
			found[name] = "MODIFIED"
		}
	}
	for name := range after {
		if before[name] == nil {
			found[name] = "ADDED"
		}
	}
	return found
}

// TestChanges: the changes of an object are its states, one after the other.
func TestChanges(t *testing.T) {
	testseed.Each(t, 4, func(t *testing.T, seed uint64) {
		synctest.Test(t, func(t *testing.T) {
			rng, began := rand.New(rand.NewPCG(seed, 0)), time.Now()
			s, states := randomScript(rng, 300)
			rec := record(t, s)
			past, err := Read(rec, history.Selection{}, began, began.Add(rec.Duration()))
			if err != nil {
				t.Fatal(err)
			}
			told := 0
			for _, o := range past.Objects() {
				var now *unstructured.Unstructured
				for item, err := range o.Changes() {
					second := int(item.Time.Sub(began) / time.Second)
					if want := states[second][o.key.Name]; err != nil || text(item.After) != text(want) {
						t.Fatalf("%s after %d s: %s, %v; want %s", o.key, second, text(item.After), err, text(want))
					}
					if item.After != nil && text(item.Before) != text(now) {
						t.Errorf("%s after %d s: before that %s, want %s", o.key, second, text(item.Before), text(now))
					}
					if now = item.After; !item.Initial {
						told++
					}
				}
			}
			if told != len(states)-1 {
				t.Errorf("%d changes, want %d", told, len(states)-1)
			}
		})
	})
}

// TestNoSecrets: a journal has no values of Secrets, even if a recording should have them.
func TestNoSecrets(t *testing.T) {
	const canary = "Kanarienvogel"
	encoded := base64.StdEncoding.EncodeToString([]byte(canary))
	for kind, content := range map[string]map[string]any{
		"Secret": {"data": map[string]any{"password": encoded}, "stringData": map[string]any{"p": canary}},
		"Bundle": {"spec": map[string]any{"kind": "Secret", "data": map[string]any{"password": encoded}}},
	} {
		o := &unstructured.Unstructured{Object: content}
		o.SetKind(kind)
		o.SetName("db")
		c, err := changeOf(history.Item{Kind: history.Change, After: o}, 1)
		if text := string(c.Object); err != nil || strings.Contains(text, canary) || strings.Contains(text, encoded) ||
			!strings.Contains(text, "[redacted, 13 bytes]") {
			t.Errorf("%s: %s, %v", kind, text, err)
		}
	}
}

// TestTooMuch: what does not fit into memory is not left out silently.
func TestTooMuch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		s, _ := randomScript(rand.New(rand.NewPCG(1, 0)), 300)
		rec := record(t, s)
		past, err := (&Past{every: true}).read(rec, history.Selection{}, began, began.Add(rec.Duration()), 1)
		if err != nil {
			t.Fatal(err)
		}
		const want = "pods changed too much to be kept in memory: what is left begins at "
		for _, o := range past.Objects() {
			if _, err := o.At(began); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v", o.key, err)
			}
			for item, err := range o.Changes() {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("%s: %v, %v", o.key, item, err)
				}
			}
		}
	})
}
