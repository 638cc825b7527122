package journal_test

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tidings/tidings/internal/journal"
	"github.com/tidings/tidings/internal/testseed"
	"github.com/tidings/tidings/object"
)

var (
	pods  = schema.GroupResource{Resource: "pods"}
	start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
)

func newJournal(t testing.TB, options journal.Options) *journal.Journal {
	t.Helper()
	options.Resource = pods
	j, err := journal.New(options)
	if err != nil {
		t.Fatal(err)
	}
	return j
}

func change(kind object.DeltaType, name string, version int, data string) journal.Change {
	return journal.Change{
		Key: object.Key{Namespace: "shop", Name: name}, UID: types.UID("uid of " + name), Version: strconv.Itoa(version),
		Time: start.Add(time.Duration(version) * time.Second), Type: kind, Object: []byte(data),
	}
}

func add(t testing.TB, j *journal.Journal, changes ...journal.Change) {
	t.Helper()
	for _, c := range changes {
		if err := j.Add(c); err != nil {
			t.Fatal(err)
		}
	}
}

func TestSecretsAreRefused(t *testing.T) {
	secrets := schema.GroupResource{Resource: "secrets"}
	if _, err := journal.New(journal.Options{Resource: secrets}); !errors.Is(err, journal.ErrSecrets) {
		t.Errorf("got %v", err)
	}
	if _, err := journal.New(journal.Options{Resource: secrets, AllowSecrets: true}); err != nil {
		t.Error(err)
	}
	if _, err := journal.New(journal.Options{}); err == nil {
		t.Error("a journal of nothing was made")
	}
}

func TestHistory(t *testing.T) {
	j := newJournal(t, journal.Options{})
	add(t, j,
		change(object.Added, "web", 1, "state one of web"), change(object.Added, "db", 2, "state two of db"),
		change(object.Updated, "web", 3, "state three of web"), change(object.Deleted, "web", 4, "state four of web"),
		change(object.Added, "web", 6, "state six of web"))
	web := object.Key{Namespace: "shop", Name: "web"}
	for version, want := range map[string]string{
		"0": "", "1": "state one of web", "2": "state one of web", "3": "state three of web", "4": "", "5": "",
		"6": "state six of web", "99": "state six of web",
	} {
		number, _ := strconv.Atoi(version)
		for _, point := range []journal.Point{
			journal.Version(version), journal.Moment(start.Add(time.Duration(number) * time.Second)),
		} {
			got, err := j.At(web, point)
			if want == "" && !errors.Is(err, journal.ErrNotFound) || want != "" && (err != nil || string(got.Object) != want) {
				t.Errorf("at %s: %q, %v", version, got.Object, err)
			}
		}
	}
	var versions []string
	for c, err := range j.Since("2") {
		if err != nil {
			t.Fatal(err)
		}
		versions = append(versions, c.Version+" "+c.Type.String()+" "+string(c.Object))
	}
	want := []string{"3 Updated state three of web", "4 Deleted state four of web", "6 Added state six of web"}
	if !slices.Equal(versions, want) {
		t.Errorf("got %q", versions)
	}
}

func TestWrongVersions(t *testing.T) {
	j := newJournal(t, journal.Options{})
	add(t, j, change(object.Added, "web", 5, "web"))
	if err := j.Add(change(object.Updated, "web", 4, "web")); !errors.Is(err, journal.ErrOrder) {
		t.Errorf("an older version: %v", err)
	}
	if err := j.Advance("4", start); !errors.Is(err, journal.ErrOrder) {
		t.Errorf("a bookmark with an older version: %v", err)
	}
	wrong := change(object.Updated, "web", 6, "web")
	wrong.Version = "abc"
	if err := j.Add(wrong); !errors.Is(err, journal.ErrVersion) {
		t.Errorf("a version that is no number: %v", err)
	}
	for _, err := range j.Since("x") {
		if !errors.Is(err, journal.ErrVersion) {
			t.Errorf("since x: %v", err)
		}
	}
	if _, err := j.At(object.Key{Name: "a"}, journal.Version("x")); !errors.Is(err, journal.ErrVersion) {
		t.Errorf("at x: %v", err)
	}
}

// model is a journal that keeps everything.
type model struct {
	begin   int // the version
	initial map[object.Key]journal.Change
	log     []journal.Change
}

func (m *model) at(version int) map[object.Key]journal.Change {
	state := maps.Clone(m.initial)
	for _, c := range m.log {
		if v, _ := strconv.Atoi(c.Version); v > version {
			break
		}
		if state[c.Key] = c; c.Type == object.Deleted {
			delete(state, c.Key)
		}
	}
	return state
}

// TestModel compares a journal with one that keeps everything: what the journal still has is the
// same, and it says so of what it does not.
func TestModel(t *testing.T) {
	testseed.Each(t, 8, func(t *testing.T, seed uint64) {
		rng := rand.New(rand.NewPCG(seed, 0))
		options := journal.Options{MaxBytes: 1 << (12 + rng.IntN(12)), MaxAge: time.Duration(1+rng.IntN(2000)) * time.Second}
		j := newJournal(t, options)
		m := &model{initial: map[object.Key]journal.Change{}}
		version := 0
		if rng.IntN(2) == 0 {
			version = reset(t, rng, j, m)
		}
		keys := 1 + rng.IntN(12)
		for range 700 {
			version += rng.IntN(3)
			c := nextChange(rng, m, keys, version)
			m.log = append(m.log, c)
			add(t, j, c)
			if rng.IntN(40) == 0 {
				compare(t, rng, j, m, version)
			}
		}
		compare(t, rng, j, m, version)
	})
}

func reset(t *testing.T, rng *rand.Rand, j *journal.Journal, m *model) (version int) {
	m.begin = 100
	for i := range rng.IntN(1200) {
		c := change(object.Added, fmt.Sprint("initial-", i), rng.IntN(100), fmt.Sprint("the initial state of the object ", i))
		m.initial[c.Key] = c
	}
	if err := j.Reset("100", start.Add(100*time.Second), maps.Values(m.initial)); err != nil {
		t.Fatal(err)
	}
	return m.begin
}

// nextChange returns a random change. Objects resemble their earlier states.
func nextChange(rng *rand.Rand, m *model, keys, version int) journal.Change {
	name := fmt.Sprint("pod-", rng.IntN(keys))
	data := fmt.Sprintf(`{"name":%q,"padding":"a long text that all have in common","status":{"n":%d,"phase":%q}}`, name, version, name)
	if rng.IntN(10) == 0 {
		data = fmt.Sprint(rng.Uint64(), " is something else")
	}
	c := change(object.Added, name, version, data)
	old, exists := m.at(version)[c.Key]
	switch {
	case exists && rng.IntN(8) == 0:
		c.Type = object.Deleted
	case exists:
		c.Type = object.Updated
	}
	if c.UID = old.UID; !exists {
		c.UID = types.UID(fmt.Sprint("uid-", version))
	}
	return c
}

func compare(t *testing.T, rng *rand.Rand, j *journal.Journal, m *model, newest int) {
	t.Helper()
	stats := j.Stats()
	begin, _ := strconv.Atoi(stats.BeginVersion)
	begin = max(begin, m.begin)
	if live := m.at(newest); stats.Objects != len(live) {
		t.Fatalf("%d objects, want %d", stats.Objects, len(live))
	}
	version := m.begin + rng.IntN(newest+2-m.begin)
	compareSince(t, j, m, begin, version)
	point := journal.Version(strconv.Itoa(version))
	if rng.IntN(2) == 0 {
		point = journal.Moment(start.Add(time.Duration(version)*time.Second + time.Millisecond))
	}
	want := m.at(version)
	got := map[object.Key]journal.Change{}
	for c, err := range j.All(point) {
		if errors.Is(err, journal.ErrTooOld) && version < begin {
			return
		}
		if err != nil {
			t.Fatalf("all at %d, journal begins at %d: %v", version, begin, err)
		}
		got[c.Key] = c
	}
	if len(got) != len(want) {
		t.Fatalf("at %d: %d objects, want %d", version, len(got), len(want))
	}
	for key, c := range want {
		requireSame(t, got[key], c)
		single, err := j.At(key, point)
		if err != nil {
			t.Fatal(err)
		}
		requireSame(t, single, c)
	}
}

func compareSince(t *testing.T, j *journal.Journal, m *model, begin, version int) {
	t.Helper()
	i := slices.IndexFunc(m.log, func(c journal.Change) bool { v, _ := strconv.Atoi(c.Version); return v > version })
	if i < 0 {
		i = len(m.log)
	}
	for c, err := range j.Since(strconv.Itoa(version)) {
		if errors.Is(err, journal.ErrTooOld) && version < begin {
			return
		}
		if err != nil {
			t.Fatalf("since %d: %v", version, err)
		}
		requireSame(t, c, m.log[i])
		i++
	}
	if version < begin || i != len(m.log) {
		t.Fatalf("since %d, beginning at %d: %d of %d", version, begin, i, len(m.log))
	}
}

func requireSame(t *testing.T, got, want journal.Change) {
	t.Helper()
	if got.Key != want.Key || got.UID != want.UID || got.Version != want.Version || !got.Time.Equal(want.Time) ||
		got.Type != want.Type || string(got.Object) != string(want.Object) {
		t.Fatalf("got %+v %q, want %+v %q", got, got.Object, want, want.Object)
	}
}

// TestBounds: the history is dropped from its beginning by size and age, the current state is not.
func TestBounds(t *testing.T) {
	j := newJournal(t, journal.Options{MaxAge: time.Minute})
	for i := range 1000 {
		add(t, j, change(object.Added, fmt.Sprint("pod-", i%10), i, fmt.Sprint("state ", i)))
	}
	if s := j.Stats(); s.Changes != 61 || s.BeginVersion != "938" {
		t.Errorf("by age: %+v", s)
	}
	if err := j.Advance("2000", start.Add(2000*time.Second)); err != nil {
		t.Fatal(err)
	}
	if s := j.Stats(); s.Changes != 0 || s.Objects != 10 || s.BeginVersion != "999" {
		t.Errorf("after a long time: %+v", s)
	}
	const most = 200_000
	j = newJournal(t, journal.Options{MaxBytes: most})
	for i := range 20_000 {
		kind, name := object.Updated, fmt.Sprint("pod-", i%10)
		if i%3 == 0 {
			name = fmt.Sprint("short-lived-", i/6) // added and deleted
			if kind = object.Added; i%6 == 3 {
				kind = object.Deleted
			}
		}
		add(t, j, change(kind, name, i, fmt.Sprint("state ", i)))
		if s := j.Stats(); s.Bytes > most {
			t.Fatalf("after %d: %+v", i, s)
		}
	}
	if s := j.Stats(); s.Changes < 300 {
		t.Errorf("too little is kept: %+v", s)
	}
}

// TestAccounting: when everything has been dropped and deleted, nothing is counted.
func TestAccounting(t *testing.T) {
	j := newJournal(t, journal.Options{MaxAge: time.Minute})
	rng := testseed.Rand(t)
	m := &model{initial: map[object.Key]journal.Change{}}
	version := 0
	for range 3000 {
		version++
		c := nextChange(rng, m, 20, version)
		m.log = append(m.log[max(0, len(m.log)-500):], c)
		add(t, j, c)
	}
	for key, c := range m.at(version) {
		version++
		add(t, j, change(object.Deleted, key.Name, version, string(c.Object)))
	}
	if err := j.Advance(strconv.Itoa(version), start.Add(time.Hour*10)); err != nil {
		t.Fatal(err)
	}
	if s := j.Stats(); s.Objects != 0 || s.Changes != 0 || journal.Counted(j) != 0 {
		t.Errorf("got %+v, %d bytes of history", s, journal.Counted(j))
	}
}

// TestReadersBesideTheWriter: each read sees whole states, in the order in which they were added.
func TestReadersBesideTheWriter(t *testing.T) {
	j := newJournal(t, journal.Options{MaxBytes: 100_000})
	state := func(i int) string { return fmt.Sprintf("state %08d and again %08d", i, i) }
	done := make(chan struct{})
	var readers sync.WaitGroup
	for n := range 4 {
		readers.Go(func() {
			for last := 0; ; {
				select {
				case <-done:
					return
				default:
				}
				last = readOnce(t, j, n, last, state)
			}
		})
	}
	for i := range 30_000 {
		kind := object.Updated
		if i%50 == 49 {
			kind = object.Deleted
		}
		add(t, j, change(kind, fmt.Sprint("pod-", i%7), i, state(i)))
	}
	close(done)
	readers.Wait()
}

func readOnce(t *testing.T, j *journal.Journal, n, last int, state func(int) string) int {
	check := func(c journal.Change) int {
		version, _ := strconv.Atoi(c.Version)
		if string(c.Object) != state(version) {
			t.Errorf("version %d is %q", version, c.Object)
		}
		return version
	}
	newest, _ := strconv.Atoi(j.Stats().NewestVersion)
	switch n {
	case 0, 1:
		for c, err := range j.Since(strconv.Itoa(last)) {
			if err != nil {
				return max(newest-100, 0) // overtaken
			}
			if version := check(c); version != last+1 {
				t.Errorf("%d comes after %d", version, last)
			} else {
				last++
			}
		}
	default:
		at := max(newest-last%200, 0)
		for c, err := range j.All(journal.Version(strconv.Itoa(at))) {
			if err == nil && check(c) > at {
				t.Errorf("%s is in the state at %d", c.Version, at)
			}
		}
		return last + 1
	}
	return last
}
