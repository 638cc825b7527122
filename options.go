package tidings

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/tidings/tidings/internal/budget"
	"github.com/tidings/tidings/internal/engine"
	"github.com/tidings/tidings/internal/saved"
	"github.com/tidings/tidings/reflector"
	"github.com/tidings/tidings/source/recording"
)

const defaultStaleAfter = 3 * time.Minute

// Options are the options of a factory and of its informers. The zero value is ready to use.
type Options struct {
	// Scheme maps Go types to kinds. Nil means client-go's scheme, which has all built-in types.
	Scheme *runtime.Scheme
	// Logger receives warnings and errors: the first of each kind immediately, then at most one a
	// minute. Nil means slog.Default(); slog.New(slog.DiscardHandler) is silent.
	Logger *slog.Logger
	// OnError is called for every error that an informer encounters and survives: a failed list, a
	// broken watch, an object that cannot be decoded, a faulty transform, a handler that panicked and
	// so lost a notification (a *PanicError). The calls of one informer
	// come one at a time, on a goroutine of their own; those of several informers may overlap. If
	// the function is too slow, errors are dropped; Status counts them.
	OnError func(error)
	// OnMutation is called, in the same way as OnError, when the mutation guard detects a write to a cached object.
	OnMutation func(Mutation)
	// NoMutationGuard turns the mutation guard off.
	NoMutationGuard bool
	// NoWatchList fetches every collection with paged lists, instead of with a watch that begins
	// with the current objects. It saves two seconds with servers and proxies that claim to support
	// such a watch but do not; it is not needed for those that decline it.
	NoWatchList bool
	// FirstFromCache makes an informer's first list, if it is a paged one, take whatever state the server has in its
	// cache, as client-go's does: it spares servers before 1.34 a read from etcd, but may bring a state older than what
	// the program has seen before. Scope.FirstFromCache does so for one informer.
	FirstFromCache bool
	// StaleAfter is how long the server may be silent, or the store behind what the server is known
	// to have, before an informer counts as stale; 0 means 3 minutes. A server sends a bookmark
	// about once a minute.
	StaleAfter time.Duration
	// Backoff is the delay between retries; the zero value means reflector.Backoff's defaults.
	Backoff reflector.Backoff
	// PageSize is how many objects a list requests per page; 0 means 500.
	PageSize int64
	// MaxObjectBytes is the largest encoded object that is accepted; 0 means the source's default.
	MaxObjectBytes int
	// KeepOpen keeps all objects open, that is decoded, unless a MemoryBudget is exceeded. Otherwise an object is kept
	// open only as long as that pays: once it has not been read, and has not changed, for as long as opening it again
	// costs at the price of memory, about a minute for a pod, it is folded: kept encoded and packed in a fraction of the
	// memory, and opened again when it is read. An informer whose objects take less than 4 MB is left alone.
	// Status.Memory says what the rule has decided for each informer, and why. See docs/memory.md.
	KeepOpen bool
	// KeepOpenResources is KeepOpen for the informers of these resources, for programs that have no Scope to say it in.
	KeepOpenResources []schema.GroupResource
	// MemoryBudget is how many bytes the cached objects of the factory's informers may take
	// together. Beyond that, the objects that were not read for the longest time are folded, even
	// if keeping them open would pay. Nothing is ever dropped: if even the folded
	// objects exceed the budget, Status.Memory says so and a warning is logged. 0 means no budget;
	// a negative one is an error.
	MemoryBudget int64
	// Audit is how often each list and watch is compared with the server: the keys and versions in
	// the store with a metadata-only list at the same version. Audits delay nothing, and changes in
	// flight do not count as differences. A difference, which should never occur, is logged,
	// reported to OnError as a DivergedError, and repaired by a list that reuses no cached objects;
	// PartStatus.Audit counts them. An audit costs the server a metadata list in pages of 500, one
	// a second; more than 60,000 objects are listed faster, within about two minutes. It needs a
	// server that can list at an exact version, as Kubernetes does; with others it is inconclusive.
	// 0 means never; an hour is reasonable.
	Audit time.Duration
	// Recorder, if set, records what the API server or the sources deliver, without the values of
	// Secrets; see source/recording. The caller closes it after the informers have ended.
	Recorder *recording.Recorder
	// Seed makes randomness (jitter, watch timeouts) repeatable; 0 means a random seed.
	Seed uint64

	// Files are the options of the files in which informers save their objects, so that the next start needs no list.
	Files Files
}

// Files are the options of the files in which informers save their objects, so that the next start needs no list: readers
// and handlers get the saved objects immediately, and the watch resumes from there. See docs/memory.md.
//
// An informer has synced only when the server has confirmed what was in the file and sent what has changed since. Until
// then Status and Fresh say that its data come from a file, and how old they are. A file that is corrupt or belongs to
// another cluster or other types is discarded, which is logged. If the server no longer remembers the file's version, the
// informer lists again, and only objects that differ are decoded and reported to handlers.
type Files struct {
	// Dir is the directory of the files. It is created if it does not exist. Each cluster needs its own directory;
	// programs may share one. Empty saves nothing.
	Dir string
	// Key encrypts the files with AES-256-GCM. It must be at least 32 random bytes, and is copied. Without a key, whoever
	// can write to Dir decides what informers hold until the server says otherwise.
	Key []byte
	// Secrets lets informers of Secrets save theirs too. It needs a Key.
	Secrets bool
	// Every is roughly how often changed objects are saved; 0 means 5 minutes. They are also saved when an informer ends.
	Every time.Duration
	// TransformVersion identifies what the program's transforms do. Change it whenever one of them changes: files of
	// another version are discarded. Without it, informers with a transform are not saved.
	TransformVersion string
	// ClusterID identifies the cluster, so that files of another one are not used. If it is empty, informers ask the
	// server for the uid of the namespace kube-system before they use a file; if they cannot get that, they fall back to
	// the server's address and certificate authority. With a ClusterID, readers get the saved objects even while the
	// server is unreachable. Informers over sources other than an API server need one.
	ClusterID string
}

// Mutation reports a write to a cached object, which the mutation guard detected.
type Mutation struct {
	// Resource is the informer's name.
	Resource string
	// Key is the object that was written to; empty if the write was found in a part that several objects share.
	Key Key
	// Handler is the handler that was running while the object changed; empty if the object was changed at
	// another time, for example by the user of a lister.
	Handler string
	// Field is the shared part, such as "metadata.labels", if the decoder noticed the write.
	// Objects decoded later do not get the modified part.
	Field string
}

// memory returns the budget in the engine's form, nil if there is none, or an error if it is negative.
func (o Options) memory() (*budget.Budget, error) {
	if o.MemoryBudget <= 0 {
		return nil, checkBudget("Options", o.MemoryBudget)
	}
	return budget.New(o.MemoryBudget, o.Logger), nil
}

func checkBudget(owner string, budget int64) error {
	if budget >= 0 {
		return nil
	}
	return fmt.Errorf("%s.MemoryBudget is %d; it is a number of bytes, and 0 means no budget", owner, budget)
}

// keepsOpen reports whether the rule of what is open is off for a resource.
func (o Options) keepsOpen(of schema.GroupResource) bool {
	return o.KeepOpen || slices.Contains(o.KeepOpenResources, of)
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
	o.Files.Key = slices.Clone(o.Files.Key) // the caller may wipe its copy from memory
	return o
}

// engine returns the engine's part of the options.
func (o Options) engine(peers *reflector.Peers, cluster func(context.Context) (string, error)) engine.Options {
	opts := engine.Options{
		Logger: o.Logger, OnError: o.OnError, NoMutationGuard: o.NoMutationGuard, NoWatchList: o.NoWatchList, FirstFromCache: o.FirstFromCache,
		Backoff: o.Backoff, PageSize: o.PageSize, Seed: o.Seed, Peers: peers, Audit: o.Audit,
	}
	if report := o.OnMutation; report != nil {
		opts.OnMutation = func(m engine.Mutation) { report(Mutation(m)) }
	}
	if f := o.Files; f.Dir != "" {
		opts.Files = &saved.Options{
			Dir: f.Dir, Key: f.Key, Every: f.Every, Secrets: f.Secrets, TransformVersion: f.TransformVersion, Cluster: cluster,
		}
	}
	return opts
}
