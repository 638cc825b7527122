package protocol

import (
	"cmp"
	"context"
	"iter"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/tidings/tidings/object"
)

// Storage holds the objects of one resource and the history of their changes. Versions are those of
// the API; they grow with each change of any resource. Everything that a Storage returns is
// read-only. Its methods may be called from any goroutine.
type Storage interface {
	// Version returns the version up to which everything is known.
	Version() uint64
	// MostRecent returns a version that the storage has reached and that is no older than any that
	// a client could have seen before the call.
	MostRecent(ctx context.Context) (uint64, error)
	// Reach waits a moment for a version that does not exist yet. It returns a TooLarge error if that does not come.
	Reach(ctx context.Context, version uint64) error
	// Get returns the object with this key at the latest version, or nil.
	Get(key object.Key) (object.Object, error)
	// List returns the state at a version: ErrCompacted if it is too old, ErrGone if the resource was removed.
	List(version uint64) (List, error)
	// After returns the changes after a version.
	After(version uint64) Tail
	// Oldest returns the oldest version from which a new watch may start.
	Oldest() uint64
}

// Change is one entry of a storage's history. Before or After is nil for a creation or a deletion.
type Change struct {
	Version       uint64
	Before, After object.Object
	// Final is the object of a DELETED event: the last state, at the version of the deletion.
	Final object.Object
}

// List is the state of a storage at a version: its objects ordered by path, as in etcd. A path is "namespace/name", or
// "name" without a namespace. It may be read at any time.
type List interface {
	// From iterates over the objects whose paths begin with the prefix, which is empty or that of a namespace, and are
	// at or after prefix+start.
	From(prefix, start string) iter.Seq[object.Object]
	// Count returns the number of these objects.
	Count(prefix, start string) int
}

// Entry is an object with its path.
type Entry struct {
	Path   string
	Object object.Object
}

// Entries is a List in memory of its own, ordered by path.
type Entries []Entry

// From implements List.
func (l Entries) From(prefix, start string) iter.Seq[object.Object] {
	return func(yield func(object.Object) bool) {
		for _, e := range l.within(prefix, start) {
			if !yield(e.Object) {
				return
			}
		}
	}
}

// Count implements List.
func (l Entries) Count(prefix, start string) int { return len(l.within(prefix, start)) }

// within returns the entries that From iterates over.
func (l Entries) within(prefix, start string) Entries {
	from, _ := slices.BinarySearchFunc(l, prefix+start, func(e Entry, path string) int { return cmp.Compare(e.Path, path) })
	rest := l[from:]
	return rest[:sort.Search(len(rest), func(i int) bool { return !strings.HasPrefix(rest[i].Path, prefix) })]
}

// Tail is what a reader that follows a storage has not seen yet.
type Tail struct {
	Changes []Change
	// Version is the storage's version: with Changes, the reader is current to it.
	Version uint64
	// Changed is closed on the next change.
	Changed <-chan struct{}
	// Bookmarks counts the requests for bookmarks. When it grows, every watch sends one.
	Bookmarks int
	// Lost says that changes the reader has not seen have been dropped, and Closed that the resource has been removed.
	Lost, Closed bool
}

// FreshPatience is how long a read waits for a version that does not exist yet.
const FreshPatience = 3 * time.Second

// Reach implements Storage.Reach. current returns the present version, and a channel that is closed
// when it changes; ended ends the wait with ErrCut.
func Reach(ctx context.Context, version uint64, current func() (uint64, <-chan struct{}), ended <-chan struct{}) error {
	timer := time.NewTimer(FreshPatience)
	defer timer.Stop()
	for {
		now, changed := current()
		if version <= now {
			return nil
		}
		select {
		case <-changed:
		case <-timer.C:
			return TooLarge(version, now)
		case <-ctx.Done():
			return ErrCut
		case <-ended:
			return ErrCut
		}
	}
}
