// Package top counts who writes what: by object, kind, manager and namespace, with the writes that
// changed nothing, and finds the fields that two managers set back and forth.
package top

import (
	"cmp"
	"container/list"
	"encoding/json"
	"hash/maphash"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tidings/tidings/cmd/tidings/internal/diff"
	"github.com/tidings/tidings/cmd/tidings/internal/filter"
	"github.com/tidings/tidings/cmd/tidings/internal/news"
)

// The limits of what is remembered. When there are more objects or fields, those that were written least are forgotten.
const (
	maxRows   = 20_000
	maxFields = 100_000
	// recent is the time over which the current rate is measured, in seconds.
	recent = 10
)

// Group is what writes are counted by.
type Group string

// The groups.
const (
	ByObject    Group = "object"
	ByKind      Group = "kind"
	ByManager   Group = "manager"
	ByNamespace Group = "namespace"
)

// Groups are all groups.
var Groups = []Group{ByObject, ByKind, ByManager, ByNamespace}

// Row counts the writes of one object, kind, manager or namespace.
type Row struct {
	Name string `json:"name"`
	// Writes is the number of changes since the start; Useless that of those that changed nothing
	// but times or bookkeeping.
	Writes  int `json:"writes"`
	Useless int `json:"useless"`
	// Bytes is the size of the values that were written, as JSON.
	Bytes int `json:"bytes"`
	// PerSecond is the rate over the last ten seconds, PerMinute that since the start.
	PerSecond float64 `json:"perSecond"`
	PerMinute float64 `json:"perMinute"`

	buckets [recent]int32
	at      int64 // the second of the newest bucket
}

// Fight is a field that two managers set back and forth.
type Fight struct {
	Object   string    `json:"object"`
	Path     string    `json:"path"`
	Managers [2]string `json:"managers"`
	// Values are what they set it to, in the order of Managers.
	Values [2]any `json:"values"`
	// Flips is how often one of them has undone what the other had done.
	Flips int `json:"flips"`
}

// Report is what has been counted.
type Report struct {
	Schema  string          `json:"schema"`
	Seconds float64         `json:"seconds"`
	Writes  int             `json:"writes"`
	Useless int             `json:"useless"`
	Groups  map[Group][]Row `json:"groups"`
	Fights  []Fight         `json:"fights"`
}

// Schema is the schema of the JSON report.
const Schema = "tidings.top/v1"

// Counter counts events. It is a tail.Printer that prints nothing. Its methods may be called from any goroutine.
type Counter struct {
	mu      sync.Mutex
	started time.Time
	writes  int
	useless int
	rows    map[Group]map[string]*Row
	fields  map[string]*field
	last    *changes // nil unless they are kept
}

// field is the last change of a field, and how often it was undone by another manager.
type field struct {
	fight    Fight
	old, new uint64 // hashes of the values as JSON
	last     string // the manager
}

// seed is that of the values' hashes.
var seed = maphash.MakeSeed()

// maxValue is the size of a value of a fight, as JSON, up to which it is kept whole.
const maxValue = 256

// New returns a counter that starts now.
func New(now time.Time) *Counter {
	c := &Counter{started: now, rows: map[Group]map[string]*Row{}, fields: map[string]*field{}}
	for _, g := range Groups {
		c.rows[g] = map[string]*Row{}
	}
	return c
}

// KeepChanges makes the counter keep the last changes, for Last. It has to be called before the first event.
func (c *Counter) KeepChanges() { c.last = &changes{ofObject: map[string][]*list.Element{}} }

// Last returns the last changes of what a row counts, as text, the newest first.
func (c *Counter) Last(g Group, name string) []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.last == nil {
		return nil
	}
	return c.last.last(g, name)
}

// plain is how changes are kept and status is shown.
var plain = news.Text{Limits: news.Limits{Changes: 20, Value: 200}}

// Status implements tail.Printer: what is wrong is shown, and when it ends.
func (c *Counter) Status(s news.Status) []byte {
	if s.Kind == news.Synced {
		return nil
	}
	return plain.Status(s)
}

// Event implements tail.Printer: it counts.
func (c *Counter) Event(e news.Event) []byte {
	if e.Initial {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	object := strings.TrimPrefix(e.Namespace+"/", "/") + e.Name
	object = e.Resource.Name() + " " + object
	useless, bytes := filter.IsUseless(e), 0
	for i := range e.Changes {
		value, err := json.Marshal(e.Changes[i].New)
		if err == nil {
			bytes += len(value)
		}
		c.field(e, object, &e.Changes[i], value)
	}
	c.writes++
	if useless {
		c.useless++
	}
	all := names{object, e.Resource.Name(), manager(e), cmp.Or(e.Namespace, "(none)")}
	for i, g := range Groups {
		c.row(g, all[i]).add(e.Time, useless, bytes)
	}
	if c.last != nil {
		c.last.add(&kept{all, string(plain.Event(e))})
	}
	return nil
}

// manager names who made a change: "(unknown)", or several names.
func manager(e news.Event) string {
	if e.By.Name != "" {
		return e.By.Name
	}
	var names []string
	for _, c := range e.Changes {
		if c.By.Name != "" && !slices.Contains(names, c.By.Name) {
			names = append(names, c.By.Name)
		}
	}
	return cmp.Or(strings.Join(names, "+"), "(unknown)")
}

func (c *Counter) row(g Group, name string) *Row {
	rows := c.rows[g]
	r := rows[name]
	if r == nil {
		if len(rows) >= maxRows {
			forget(rows, func(r *Row) int { return r.Writes })
		}
		r = &Row{Name: name}
		rows[name] = r
	}
	return r
}

// forget removes the half with the smallest values.
func forget[V any](all map[string]V, value func(V) int) {
	keys := slices.SortedFunc(maps.Keys(all), func(a, b string) int { return cmp.Compare(value(all[a]), value(all[b])) })
	for _, key := range keys[:len(keys)/2] {
		delete(all, key)
	}
}

func (r *Row) add(at time.Time, useless bool, bytes int) {
	r.Writes++
	r.Bytes += bytes
	if useless {
		r.Useless++
	}
	r.turn(at.Unix())
	if second := at.Unix(); r.at-second < recent {
		r.buckets[second%recent]++
	}
}

// turn empties the buckets of the seconds up to now.
func (r *Row) turn(now int64) {
	for ; r.at < now; r.at++ {
		if now-r.at > recent {
			r.at = now - recent
		}
		r.buckets[(r.at+1)%recent] = 0
	}
}

// field looks at a change of one field: it is a blow in a fight if it undoes the change before,
// which another manager made.
func (c *Counter) field(e news.Event, object string, change *diff.Change, value []byte) {
	by := cmp.Or(change.By.Name, e.By.Name)
	old, err := json.Marshal(change.Old)
	if by == "" || err != nil || e.Type != news.Modified {
		return
	}
	key := object + "\x00" + change.Path.String()
	f := c.fields[key]
	if f == nil {
		if len(c.fields) >= maxFields {
			forget(c.fields, func(f *field) int { return f.fight.Flips })
		}
		f = &field{}
		c.fields[key] = f
	}
	before, after := maphash.Bytes(seed, old), maphash.Bytes(seed, value)
	if f.last != "" && f.last != by && f.old == after && f.new == before {
		f.fight.Object, f.fight.Path = object, change.Path.String()
		f.fight.Flips++
		f.fight.Managers, f.fight.Values = [2]string{f.last, by}, [2]any{brief(change.Old, old), brief(change.New, value)}
		if f.last > by { // the same order each time
			slices.Reverse(f.fight.Managers[:])
			slices.Reverse(f.fight.Values[:])
		}
	}
	f.old, f.new, f.last = before, after, by
}

// brief returns the value, or the beginning of its JSON if that is long.
func brief(value any, text []byte) any {
	if len(text) <= maxValue {
		return value
	}
	return strings.ToValidUTF8(string(text[:maxValue]), "") + "…"
}

// minFlips is how often a field has to be set back until it counts as a fight: once is a correction.
const minFlips = 2

// Report returns what has been counted until now: of each group at most the given number of rows,
// with the most writes first.
func (c *Counter) Report(now time.Time, most int) Report {
	c.mu.Lock()
	defer c.mu.Unlock()
	report := Report{
		Schema: Schema, Seconds: now.Sub(c.started).Seconds(), Writes: c.writes, Useless: c.useless, Groups: map[Group][]Row{}, Fights: []Fight{},
	}
	for _, g := range Groups {
		report.Groups[g] = c.top(g, now, most)
	}
	for _, f := range c.fields {
		if f.fight.Flips >= minFlips {
			report.Fights = append(report.Fights, f.fight)
		}
	}
	slices.SortFunc(report.Fights, func(a, b Fight) int {
		return cmp.Or(cmp.Compare(b.Flips, a.Flips), cmp.Compare(a.Object, b.Object), cmp.Compare(a.Path, b.Path))
	})
	return report
}

func (c *Counter) top(g Group, now time.Time, most int) []Row {
	rows := []Row{}
	seconds := max(now.Sub(c.started).Seconds(), 1)
	for _, r := range c.rows[g] {
		r.turn(now.Unix())
		row, n := *r, int32(0)
		for _, count := range r.buckets {
			n += count
		}
		row.PerSecond = float64(n) / min(seconds, recent)
		row.PerMinute = float64(r.Writes) / seconds * 60
		rows = append(rows, row)
	}
	slices.SortFunc(rows, func(a, b Row) int { return cmp.Or(cmp.Compare(b.Writes, a.Writes), cmp.Compare(a.Name, b.Name)) })
	return rows[:min(len(rows), most)]
}
