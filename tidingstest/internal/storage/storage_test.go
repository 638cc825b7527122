package storage

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tidings/tidings/internal/protocol"
	"github.com/tidings/tidings/internal/testseed"
	"github.com/tidings/tidings/object"
)

var pods = corev1.SchemeGroupVersion.WithResource("pods")

func pod(key object.Key, label string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name, Labels: map[string]string{"v": label}}}
}

// state is what the model records of a version: label and resource version by path.
type state map[string]string

func describe(l protocol.Entries) state {
	s := state{}
	for _, e := range l {
		s[e.Path] = e.Object.GetLabels()["v"] + "@" + e.Object.GetResourceVersion()
	}
	return s
}

// TestCollectionAgainstModel compares every version that is still available with a copy made when it was current.
func TestCollectionAgainstModel(t *testing.T) {
	random := testseed.Rand(t)
	s := New(40)
	c := s.Collection(pods)
	versions := map[uint64]state{s.Version(): {}}
	backups := map[*Backup]state{}
	current := state{}
	for step := range 3000 {
		key := object.Key{Namespace: []string{"a", "a-b", ""}[random.IntN(3)], Name: strconv.Itoa(random.IntN(12))}
		old := c.Get(key)
		switch random.IntN(20) {
		case 0:
			s.Compact()
		case 1:
			backups[s.Backup()] = maps.Clone(current)
		case 2, 3, 4, 5:
			version, ok := c.Replace(key, old, nil)
			if ok != (old != nil) {
				t.Fatalf("step %d: delete of %v says %v", step, key, ok)
			}
			if ok {
				delete(current, Path(key))
				versions[version] = maps.Clone(current)
			}
		default:
			label := fmt.Sprint(step)
			version, ok := c.Replace(key, old, pod(key, label))
			if !ok {
				t.Fatalf("step %d: write of %v refused", step, key)
			}
			current[Path(key)] = label + "@" + strconv.FormatUint(version, 10)
			versions[version] = maps.Clone(current)
		}
		if random.IntN(500) == 0 {
			for b, want := range backups {
				s.Restore(b)
				c, current = s.Collection(pods), maps.Clone(want)
				versions = map[uint64]state{s.Version(): maps.Clone(want)} // everything else has been dropped
				break
			}
		}
		checkVersion(t, step, c, versions, s.Version()-uint64(random.IntN(60)))
	}
}

func checkVersion(t *testing.T, step int, c *Collection, versions map[uint64]state, version uint64) {
	t.Helper()
	want, known := versions[version]
	if !known {
		return
	}
	list, err := c.EntriesAt(version)
	if err == nil && !maps.Equal(describe(list), want) {
		t.Fatalf("step %d: version %d is %v, want %v", step, version, describe(list), want)
	}
	if !slices.IsSortedFunc(list, func(a, b protocol.Entry) int { return strings.Compare(a.Path, b.Path) }) {
		t.Fatalf("step %d: the list is not sorted", step)
	}
	tail := c.After(version)
	if err != nil || tail.Lost {
		return
	}
	got := maps.Clone(want)
	for _, change := range tail.Changes {
		if change.After == nil {
			delete(got, Path(object.KeyOf(change.Final)))
			continue
		}
		got[Path(object.KeyOf(change.After))] = change.After.GetLabels()["v"] + "@" + change.After.GetResourceVersion()
	}
	if now, _ := c.EntriesAt(tail.Version); !maps.Equal(got, describe(now)) {
		t.Fatalf("step %d: replayed from %d: %v, want %v", step, version, got, describe(now))
	}
}

func TestReplaceComparesIdentity(t *testing.T) {
	s := New(10)
	c := s.Collection(pods)
	key := object.Key{Namespace: "a", Name: "x"}
	if _, ok := c.Replace(key, nil, nil); ok {
		t.Error("deleted nothing")
	}
	first := pod(key, "1")
	c.Replace(key, nil, first)
	if _, ok := c.Replace(key, nil, pod(key, "2")); ok {
		t.Error("created twice")
	}
	if _, ok := c.Replace(key, pod(key, "1"), pod(key, "2")); ok {
		t.Error("replaced an object that was not the present one")
	}
	if c.Get(key) != object.Object(first) {
		t.Error("a refused write changed something")
	}
}

func TestVersionsAtTheEdges(t *testing.T) {
	s := New(10)
	c := s.Collection(pods)
	key := object.Key{Name: "x"}
	v1, _ := c.Replace(key, nil, pod(key, "1"))
	if _, err := c.List(v1 + 1); !errors.Is(err, ErrTooNew) {
		t.Errorf("a later version: %v", err)
	}
	s.Compact()
	if _, err := c.List(v1 - 1); !errors.Is(err, protocol.ErrCompacted) {
		t.Errorf("a compacted version: %v", err)
	}
	if tail := c.After(v1 - 1); tail.Lost || len(tail.Changes) != 1 {
		t.Errorf("a reader that was following: %+v", tail)
	}
	if c.Oldest() != v1 {
		t.Error("a new reader may start from a compacted version, or not from the newest")
	}
	s.Compact()
	if tail := c.After(v1 - 1); !tail.Lost {
		t.Error("the second compaction keeps the change")
	}
	tail := c.After(v1)
	s.Remove(pods)
	select {
	case <-tail.Changed:
	default:
		t.Error("removal does not wake readers")
	}
	if _, err := c.List(v1); !errors.Is(err, protocol.ErrGone) || !c.After(v1).Closed {
		t.Errorf("a removed collection: %v", err)
	}
	if _, ok := c.Replace(key, c.Get(key), nil); ok {
		t.Error("wrote to a removed collection")
	}
}

func TestHistoryIsBounded(t *testing.T) {
	s := New(16)
	c := s.Collection(pods)
	key := object.Key{Name: "x"}
	for i := range 1000 {
		c.Replace(key, c.Get(key), pod(key, strconv.Itoa(i)))
		if len(c.history) > 16+2 {
			t.Fatalf("%d changes are remembered", len(c.history))
		}
	}
	if c.Oldest() <= firstVersion {
		t.Error("the first version is still known")
	}
}
