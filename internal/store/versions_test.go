package store

import (
	"math/rand/v2"
	"strconv"
	"testing"

	"github.com/tidings/tidings/internal/testseed"
)

// checkVersions checks the invariants.
func checkVersions(t testing.TB, v versions) {
	t.Helper()
	for i, p := range v.parts {
		if i > 0 && v.parts[i-1].namespace >= p.namespace {
			t.Fatalf("the parts are not sorted: %v", v.parts)
		}
	}
	if v.parts != nil && len(v.parts) == 0 {
		t.Fatal("parts is empty and not nil")
	}
}

// versionModel is a trivial implementation of versions.
type versionModel map[string]string

func (m versionModel) lowest() string {
	lowest, first := "", true
	for _, v := range m {
		if v == "" {
			return ""
		}
		if first || number(v) < number(lowest) {
			lowest, first = v, false
		}
	}
	return lowest
}

func (m versionModel) in(namespace string) string {
	if namespace == "" {
		return m.lowest()
	}
	if v, ok := m[namespace]; ok {
		return v
	}
	return m[""]
}

// TestRandomVersions tracks, advances, rewinds and drops parts.
func TestRandomVersions(t *testing.T) {
	namespaces := []string{"", "a", "b", "c", "d"}
	testseed.Each(t, 20, func(t *testing.T, seed uint64) {
		r := rand.New(rand.NewPCG(seed, 0))
		w, m := holding(""), versionModel{}
		for range 300 {
			txn := w.Begin()
			for range 1 + r.IntN(3) {
				namespace, version := namespaces[r.IntN(len(namespaces))], strconv.Itoa(1+r.IntN(30))
				switch r.IntN(5) {
				case 0:
					txn.Track(namespace)
					if _, ok := m[namespace]; !ok {
						m[namespace] = ""
					}
				case 1, 2:
					txn.Advance(namespace, version)
					m[namespace] = strconv.Itoa(max(number(m[namespace]), number(version)))
				case 3:
					txn.Replace(namespace, items{}, version, true)
					m[namespace] = version
				case 4:
					txn.Drop(namespace)
					delete(m, namespace)
				}
			}
			old := w.Store().Snapshot()
			before := old.ResourceVersion()
			s := txn.Commit()
			checkVersions(t, s.versions)
			if s.ResourceVersion() != m.lowest() || old.ResourceVersion() != before {
				t.Fatalf("at %q, want %q, of %v", s.ResourceVersion(), m.lowest(), m)
			}
			for _, namespace := range append(namespaces, "other") {
				if got, want := s.ResourceVersionIn(namespace), m.in(namespace); got != want {
					t.Fatalf("%q is at %q, want %q, of %v", namespace, got, want, m)
				}
			}
		}
	})
}

// TestOldSnapshotKeepsItsVersions changes every part after a snapshot was taken.
func TestOldSnapshotKeepsItsVersions(t *testing.T) {
	w := holding("")
	txn := w.Begin()
	txn.Advance("a", "5")
	txn.Advance("b", "6")
	old := txn.Commit()
	txn = w.Begin()
	txn.Advance("a", "7")
	txn.Track("c")
	txn.Replace("b", items{}, "2", true)
	now := txn.Commit()
	for s, want := range map[*Snapshot[*thing]][4]string{old: {"5", "5", "6", ""}, now: {"", "7", "2", ""}} {
		got := [4]string{s.ResourceVersion(), s.ResourceVersionIn("a"), s.ResourceVersionIn("b"), s.ResourceVersionIn("c")}
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestAbortKeepsVersions(t *testing.T) {
	w := holding("5")
	txn := w.Begin()
	txn.Advance("", "7")
	txn.Replace("a", items{}, "3", true)
	txn.Abort()
	if w.Store().Snapshot().ResourceVersion() != "5" || w.rewound != nil {
		t.Error("an aborted transaction has an effect")
	}
}
