// Package saved saves the objects of informers in files, and loads them again. It knows an informer as an Owner of Parts.
package saved

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tidings/tidings/internal/codec"
	"github.com/tidings/tidings/internal/fold/file"
	"github.com/tidings/tidings/internal/store"
	"github.com/tidings/tidings/internal/usercode"
	"github.com/tidings/tidings/object"
	"github.com/tidings/tidings/reflector"
)

// fileFormat changes when files of earlier releases must not be read any more.
const fileFormat = "1"

// fileSuffix is the suffix of file names.
const fileSuffix = ".tidings"

// Options configure where and how the informers of a factory save their objects.
type Options struct {
	Dir string
	// Key encrypts the files; empty means no encryption.
	Key []byte
	// Every is how often an informer saves its objects; 0 means 5 minutes.
	Every time.Duration
	// Secrets allows saving Secrets. It requires a key.
	Secrets bool
	// TransformVersion names the behavior of the transforms. Informers with a transform are not saved without it.
	TransformVersion string
	// Cluster returns an identifier of the cluster. Its errors are temporary. Nil means that the
	// cluster cannot be identified.
	Cluster func(context.Context) (string, error)
}

// Check validates the options.
func (o *Options) Check() error {
	switch {
	case len(o.Key) > 0 && len(o.Key) < file.MinKey:
		return fmt.Errorf("the key of the files in %s has %d bytes; it needs at least %d random ones", o.Dir, len(o.Key), file.MinKey)
	case o.Secrets && len(o.Key) == 0:
		return fmt.Errorf("the files in %s are to hold Secrets, but there is no key to encrypt them with", o.Dir)
	case o.Every < 0:
		return fmt.Errorf("the files in %s are to be saved every %v; it cannot be negative", o.Dir, o.Every)
	}
	return nil
}

// Status is the status of a part's file.
type Status struct {
	// Path is empty if nothing is saved.
	Path string
	// Loaded is how many objects the part began with, and AsOf the last time at which they were
	// certainly the server's state. AsOf is zero if the part began with a list.
	Loaded int
	AsOf   time.Time
	// Serving is set while the part shows the content of the file and nothing newer is known.
	Serving bool
	// Discarded is why the file found at the start was not used.
	Discarded error
	// Saves counts how often the file was written; SavedAt is the time of the last save,
	// SavedObjects and SavedBytes its size.
	Saves        uint64
	SavedAt      time.Time
	SavedObjects int
	SavedBytes   int64
	// Failures counts failed attempts. Err is why the objects are not saved at present; nil if they are.
	Failures uint64
	Err      error
}

// Owner is an informer whose objects are saved.
type Owner[T object.Object] interface {
	Store() *store.Store[T]
	// SavedParts returns the parts that it has now.
	SavedParts() []Part[T]
	// CheckWrites looks for writes to cached objects, which must not be saved.
	CheckWrites()
}

// Part is one list and watch of an informer. It has a file of its own.
type Part[T object.Object] interface {
	File() *File
	// ToSave returns a snapshot and its version in the part, from which a watch can resume. If the version is empty,
	// there is nothing to save. ErrInFlight means that there soon will be.
	ToSave() (snap *store.Snapshot[T], version string, err error)
	// Heard is when the server was last heard from.
	Heard() time.Time
	// Ending is the end of the part's goroutine.
	Ending() usercode.Ending
}

// Subject describes what is saved.
type Subject struct {
	Name        string
	Resource    schema.GroupVersionResource
	Type        reflect.Type      // of the objects
	Identity    map[string]string // in addition to the type, the namespace, the cluster and the transform
	Transformed bool              // by a user's transform
}

// Files saves and loads the objects of one informer. A nil *Files does neither.
type Files[T object.Object] struct {
	Options
	Subject
	owner          Owner[T]
	log            *usercode.ThrottledLog
	codec          *codec.Objects[T]
	identity       map[string]string // without cluster and namespace
	disabledReason error             // why nothing is saved or loaded
	done           chan struct{}     // closed when the saving goroutine has ended
	caller         usercode.Caller
}

// errNotSaved is wrapped by the reasons why an informer is not saved.
var errNotSaved = errors.New("not saved")

// New returns the files of an informer.
func New[T object.Object](opts Options, of Subject, owner Owner[T], log *usercode.ThrottledLog) (*Files[T], error) {
	if err := opts.Check(); err != nil {
		return nil, fmt.Errorf("%s: %w", of.Name, err)
	}
	f := &Files[T]{Options: opts, Subject: of, owner: owner, log: log, done: make(chan struct{})}
	if f.Every == 0 {
		f.Every = defaultSaveEvery
	}
	if f.disabledReason = f.whyDisabled(); f.disabledReason != nil {
		return f, nil
	}
	codec, err := codec.NewAs[T](f.Type, 0)
	if err != nil {
		f.disabledReason = fmt.Errorf("%w: %w", errNotSaved, err)
		return f, nil
	}
	f.codec = codec
	f.identity = f.describe()
	return f, nil
}

// Disabled returns why nothing is saved, nil if objects are. It is surprising if a user may not expect it.
func (f *Files[T]) Disabled() (reason error, surprising bool) {
	reason = f.disabledReason
	return reason, errors.Is(reason, errUnknown) || errors.Is(reason, errTransform) || errors.Is(reason, errCluster)
}

var (
	errSecret    = fmt.Errorf("%w: Secrets are saved only if that is asked for (Options.Files.Secrets)", errNotSaved)
	errUnknown   = fmt.Errorf("%w: nobody knows whether the objects are Secrets: their source does not tell the resource (by a method Scope() source.Scope)", errNotSaved)
	errTransform = fmt.Errorf("%w: there is a transform, and no name for what it does (Options.Files.TransformVersion)", errNotSaved)
	errCluster   = fmt.Errorf("%w: nobody knows of which cluster the objects are (Options.Files.ClusterID)", errNotSaved)
)

// cluster returns an identifier of the cluster. The request may run user code: a panic becomes an error.
func (f *Files[T]) cluster(ctx context.Context) (cluster string, err error) {
	defer func() {
		if reason := recover(); reason != nil {
			err = fmt.Errorf("which cluster is it: panic: %v", reason)
		}
	}()
	return f.Cluster(ctx)
}

// whyDisabled returns why the objects of the informer are not saved.
func (f *Files[T]) whyDisabled() error {
	switch {
	case isSecret(f.Type, f.Resource) && !f.Secrets:
		return errSecret
	case mayBeSecret(f.Type, f.Resource) && !f.Secrets:
		return errUnknown
	case f.Transformed && f.TransformVersion == "":
		return errTransform
	case f.Cluster == nil:
		return errCluster
	}
	return nil
}

// secrets is the resource that is not saved unless requested.
var secrets = schema.GroupResource{Resource: "secrets"}

// isSecret reports whether the informer holds Secrets, or their metadata.
func isSecret(t reflect.Type, resource schema.GroupVersionResource) bool {
	if t.Kind() == reflect.Pointer && t.Elem().PkgPath() == "k8s.io/api/core/v1" && t.Elem().Name() == "Secret" {
		return true
	}
	return resource.GroupResource() == secrets
}

// mayBeSecret reports whether neither the type nor the resource says what the objects are.
func mayBeSecret(t reflect.Type, resource schema.GroupVersionResource) bool {
	return resource.Empty() && (t == reflect.TypeFor[*unstructured.Unstructured]() || t == reflect.TypeFor[*metav1.PartialObjectMetadata]())
}

// describe returns the identity that a file must match to be read.
func (f *Files[T]) describe() map[string]string {
	about := map[string]string{
		"format": fileFormat, "encoding": f.codec.Encoding(), "type": typeName(f.Type), "layout": layout(f.Type), "transform": "",
	}
	if f.Transformed {
		about["transform"] = f.TransformVersion
	}
	maps.Copy(about, f.Identity)
	return about
}

// File is the file of one part. The zero value is that of a part that is not saved.
type File struct {
	Path     string            // empty if there is none
	Identity map[string]string // without the cluster

	mu            sync.Mutex // guards what follows
	status        Status
	version       string // the file's version; empty if unknown, or if the file is wrong
	invalidations int    // how often the file was invalidated
}

// OfPart returns the file for the part of a namespace. f may be nil.
func (f *Files[T]) OfPart(namespace string) *File {
	if f == nil {
		return &File{}
	}
	if f.disabledReason != nil {
		return &File{status: Status{Err: f.disabledReason}}
	}
	identity := maps.Clone(f.identity)
	identity["namespace"] = namespace
	path := filepath.Join(f.Dir, fileName(f.Name, identity))
	return &File{Path: path, Identity: identity, status: Status{Path: path}}
}

// fileName returns the name of a file. Coexisting files differ in the hash, which covers everything
// that two informers of one factory can differ in. It leaves out what only another program can do
// differently, so that this program replaces that one's file.
func fileName(name string, identity map[string]string) string {
	hash := sha256.New()
	for _, key := range slices.Sorted(maps.Keys(identity)) {
		if !slices.Contains([]string{"format", "encoding", "layout", "transform"}, key) {
			fmt.Fprintf(hash, "%q=%q\n", key, identity[key])
		}
	}
	words := []string{plain(name)}
	if ns := identity["namespace"]; ns != "" {
		words = append(words, plain(ns))
	}
	return strings.Join(append(words, hex.EncodeToString(hash.Sum(nil)[:8])), "-") + fileSuffix
}

// plain turns s into a name that every file system accepts.
func plain(s string) string {
	const most = 80
	word := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '.' || r == '-' {
			return r
		}
		return '_'
	}, strings.ToLower(s))
	return strings.TrimLeft(word[:min(most, len(word))], ".")
}

// Note changes the status.
func (pf *File) Note(change func(*Status)) {
	pf.mu.Lock()
	defer pf.mu.Unlock()
	change(&pf.status)
}

// Status returns the status of the file, without Serving.
func (pf *File) Status() Status {
	pf.mu.Lock()
	defer pf.mu.Unlock()
	return pf.status
}

// TakenOver records that the part begins with the file's content, at its version.
func (pf *File) TakenOver(version string) {
	pf.mu.Lock()
	defer pf.mu.Unlock()
	pf.version = version
}

// Progress describes how far a part that has not synced has got.
func (st Status) Progress(r reflector.Status) string {
	if !st.Serving {
		return fmt.Sprintf("%s, %d objects so far", r.Phase, r.Gathered)
	}
	age := max(0, time.Since(st.AsOf)) // the clock may have been set back
	return fmt.Sprintf("%s, with %d objects from a file, of %v ago", r.Phase, st.Loaded, age.Round(time.Second))
}
