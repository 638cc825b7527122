package tidings

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/tidings/tidings/internal/engine"
	"github.com/tidings/tidings/reflector"
	"github.com/tidings/tidings/source/recording"
)

const defaultStaleAfter = 3 * time.Minute

// Options are the options of a factory and of its informers. The zero value is ready to use.
type Options struct {
	// Scheme tells the kind of a Go type. Nil means client-go's scheme, which has all built-in types.
	Scheme *runtime.Scheme
	// Logger gets warnings and errors: the first of a kind at once, then at most one a minute. Nil means slog.Default();
	// slog.New(slog.DiscardHandler) is silent.
	Logger *slog.Logger
	// OnError is called for every error that an informer meets and outlives: a failed list, a broken watch, an object that
	// cannot be decoded, a wrong transform. Calls come one at a time, on a goroutine of their own. A function
	// that is too slow misses some; Status counts them.
	OnError func(error)
	// OnMutation is called when the mutation guard catches somebody who writes to a cached object, like OnError.
	OnMutation func(Mutation)
	// NoMutationGuard turns the mutation guard off.
	NoMutationGuard bool
	// NoWatchList gets every collection by paged lists, instead of by a watch that begins with the current objects. It is
	// for servers and proxies that say they can do the latter and cannot; one that says it cannot needs no help.
	NoWatchList bool
	// StaleAfter is how long the server may be silent before an informer counts as stale; 0 means 3 minutes. A
	// server sends a bookmark about once a minute.
	StaleAfter time.Duration
	// Backoff is how retries are spaced; the zero value means reflector.Backoff's defaults.
	Backoff reflector.Backoff
	// PageSize is how many objects a page of a list has; 0 means 500.
	PageSize int64
	// MaxObjectBytes is the largest encoded object that is accepted; 0 means the source's default.
	MaxObjectBytes int
	// MemoryBudget is how many bytes the cached objects of the factory's informers may take together. Informers keep their
	// objects open, decoded, while they fit. Beyond that, objects that were not read lately are folded: kept encoded and packed, in a small
	// part of the memory, and opened again when they are read. Nothing is ever dropped: where even the folded objects take more,
	// Status.Memory says so, and a warning is logged. 0 means no budget, everything stays open; a negative one is an error.
	MemoryBudget int64
	// Audit is how often each list and watch is compared with the server: the keys and versions in the store with those that the server
	// lists, without contents, at the same version. Nothing is held up for it, and what is on its way does not count. A
	// difference, which should never be, is logged, told to OnError as a DivergedError, and healed by a list that reuses
	// nothing; PartStatus.Audit counts. An audit costs the server a list of metadata in pages of 500, one a second. It needs a
	// server that lists exact versions, as Kubernetes does; with others it is inconclusive. 0 means never; an hour is
	// reasonable.
	Audit time.Duration
	// Recorder, if set, records what the API server or the sources bring, without the values of Secrets; see source/recording. The
	// caller closes it when the informers have ended.
	Recorder *recording.Recorder
	// Seed makes what is random (jitter, watch timeouts) repeatable; 0 takes a random seed.
	Seed uint64

	// Dir is a directory in which informers save their objects, so that the next start needs no list: readers and handlers get what
	// was saved at once, and the watch goes on from there. It is made if it does not exist. Each cluster needs a directory of its
	// own; programs may share one. See docs/memory.md. Empty saves nothing.
	//
	// An informer has synced only when the server has confirmed what was in the file and sent what has changed since. Until then
	// Status and Fresh say that its data are from a file, and how old they are. A file that is broken, of another cluster or of other
	// types is thrown away, with a word in the log. One whose version the server no longer remembers leads to a list, of which only what differs is decoded and told.
	Dir string
	// DirKey encrypts the files with AES-256-GCM: at least 32 random bytes, which are copied. Without a key, who can write to Dir decides what
	// informers hold until the server says otherwise.
	DirKey []byte
	// SaveSecrets lets informers of Secrets save theirs too. It needs a DirKey.
	SaveSecrets bool
	// SaveEvery is about how often objects are saved that have changed; 0 means 5 minutes. They are also saved when an informer
	// ends.
	SaveEvery time.Duration
	// TransformVersion names what the program's transforms do. Change it whenever one of them does something else: files of another
	// version are thrown away. Without it, informers with a transform are not saved.
	TransformVersion string
	// ClusterID tells the cluster from others, so that no file of another one is used. Empty asks the server for the uid of its
	// namespace kube-system, before a file is used; where reading that is not granted, the server's address and certificate authority
	// have to do. With a ClusterID, readers get the saved objects even while the server cannot be reached. Informers of other sources
	// than an API server need one.
	ClusterID string
}

// Mutation is what the mutation guard reports: somebody wrote to an object that the cache shares.
type Mutation struct {
	// Resource is the informer's name.
	Resource string
	// Key is the object that was written to; empty if that is known only of a part that objects share.
	Key Key
	// Handler is the handler that was running while the object changed; empty when the object was changed at
	// another time, for example by the user of a lister.
	Handler string
	// Field is the shared part, such as "metadata.labels", where the decoder noticed the write. No object that is decoded later
	// has it.
	Field string
}

// memory returns the budget as the engine keeps it, nil if there is none, or an error if there cannot be one.
func (o Options) memory() (*engine.Memory, error) {
	if o.MemoryBudget <= 0 {
		return nil, checkBudget("Options", o.MemoryBudget)
	}
	return engine.NewMemory(o.MemoryBudget, o.Logger), nil
}

func checkBudget(of string, budget int64) error {
	if budget >= 0 {
		return nil
	}
	return fmt.Errorf("%s.MemoryBudget is %d; it is a number of bytes, and 0 means no budget", of, budget)
}

func (o Options) withDefaults() Options {
	if o.Scheme == nil {
		o.Scheme = scheme.Scheme
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.StaleAfter <= 0 {
		o.StaleAfter = defaultStaleAfter
	}
	o.DirKey = slices.Clone(o.DirKey) // who has it may wipe it from memory
	return o
}

// engine returns what the engine needs of the options.
func (o Options) engine(peers *reflector.Peers, cluster func(context.Context) (string, error)) engine.Options {
	opts := engine.Options{
		Logger: o.Logger, OnError: o.OnError, NoMutationGuard: o.NoMutationGuard, NoWatchList: o.NoWatchList,
		Backoff: o.Backoff, PageSize: o.PageSize, Seed: o.Seed, Peers: peers, Audit: o.Audit,
	}
	if report := o.OnMutation; report != nil {
		opts.OnMutation = func(m engine.Mutation) { report(Mutation(m)) }
	}
	if o.Dir != "" {
		opts.Files = &engine.FileOptions{
			Dir: o.Dir, Key: o.DirKey, Every: o.SaveEvery, Secrets: o.SaveSecrets, TransformVersion: o.TransformVersion, Cluster: cluster,
		}
	}
	return opts
}
