package engine

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
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
	"github.com/tidings/tidings/internal/usercode"
	"github.com/tidings/tidings/object"
	"github.com/tidings/tidings/reflector"
)

// fileFormat changes when files of earlier releases must not be read any more.
const fileFormat = "1"

// fileSuffix is the suffix of file names.
const fileSuffix = ".tidings"

// FileOptions configure where and how the informers of a factory save their objects.
type FileOptions struct {
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

// check validates the options.
func (o *FileOptions) check() error {
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

// FileStatus is the status of a part's file.
type FileStatus struct {
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

// files saves and loads the objects of one informer.
type files[T object.Object] struct {
	FileOptions
	inf            *Informer[T]
	typ            reflect.Type // of the objects
	codec          *codec.Objects[T]
	identity       map[string]string // without cluster and namespace
	disabledReason error             // why nothing is saved or loaded
	done           chan struct{}     // closed when the saving goroutine has ended
	caller         usercode.Caller
}

// errNotSaved is wrapped by the reasons why an informer is not saved.
var errNotSaved = errors.New("not saved")

// newFiles returns the informer's files; nil without a directory. inf.mu is held.
func (inf *Informer[T]) newFiles() (*files[T], error) {
	if inf.cfg.Files == nil {
		return nil, nil
	}
	if err := inf.cfg.Files.check(); err != nil {
		return nil, fmt.Errorf("%s: %w", inf.cfg.Name, err)
	}
	f := &files[T]{FileOptions: *inf.cfg.Files, inf: inf, typ: inf.objectType(), done: make(chan struct{})}
	if f.Every == 0 {
		f.Every = defaultSaveEvery
	}
	if f.disabledReason = f.whyDisabled(); f.disabledReason != nil {
		return f, nil
	}
	codec, err := codec.NewAs[T](f.typ, 0)
	if err != nil {
		f.disabledReason = fmt.Errorf("%w: %w", errNotSaved, err)
		return f, nil
	}
	f.codec = codec
	f.identity = f.describe()
	return f, nil
}

var (
	errSecret    = fmt.Errorf("%w: Secrets are saved only if that is asked for (Options.Files.Secrets)", errNotSaved)
	errUnknown   = fmt.Errorf("%w: nobody knows whether the objects are Secrets: their source does not tell the resource (by a method Scope() source.Scope)", errNotSaved)
	errTransform = fmt.Errorf("%w: there is a transform, and no name for what it does (Options.Files.TransformVersion)", errNotSaved)
	errCluster   = fmt.Errorf("%w: nobody knows of which cluster the objects are (Options.Files.ClusterID)", errNotSaved)
)

// cluster returns an identifier of the cluster. The request may run user code: a panic becomes an error.
func (f *files[T]) cluster(ctx context.Context) (cluster string, err error) {
	defer func() {
		if reason := recover(); reason != nil {
			err = fmt.Errorf("which cluster is it: panic: %v", reason)
		}
	}()
	return f.Cluster(ctx)
}

// whyDisabled returns why the objects of the informer are not saved. It logs reasons that the user may not expect.
func (f *files[T]) whyDisabled() (err error) {
	switch {
	case isSecret(f.typ, f.inf.cfg.Resource) && !f.Secrets:
		return errSecret
	case mayBeSecret(f.typ, f.inf.cfg.Resource) && !f.Secrets:
		err = errUnknown
	case f.inf.transform != nil && f.TransformVersion == "":
		err = errTransform
	case f.Cluster == nil:
		err = errCluster
	default:
		return nil
	}
	f.inf.deferredCalls.add(func() { f.inf.log.Log(slog.LevelWarn, "the objects are not saved", "err", err) })
	return err
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
func (f *files[T]) describe() map[string]string {
	about := map[string]string{
		"format": fileFormat, "encoding": f.codec.Encoding(), "type": typeName(f.typ), "layout": layout(f.typ), "transform": "",
	}
	if f.inf.transform != nil {
		about["transform"] = f.TransformVersion
	}
	maps.Copy(about, f.inf.cfg.Identity)
	return about
}

// partFile is the file of one part. The zero value is that of a part that is not saved.
type partFile struct {
	path     string            // empty if there is none
	identity map[string]string // without the cluster

	mu            sync.Mutex // guards what follows
	status        FileStatus
	version       string // the file's version; empty if unknown, or if the file is wrong
	invalidations int    // how often the file was invalidated
}

// ofPart returns the file for the part of a namespace. f may be nil.
func (f *files[T]) ofPart(namespace string) *partFile {
	if f == nil {
		return &partFile{}
	}
	if f.disabledReason != nil {
		return &partFile{status: FileStatus{Err: f.disabledReason}}
	}
	identity := maps.Clone(f.identity)
	identity["namespace"] = namespace
	path := filepath.Join(f.Dir, fileName(f.inf.cfg.Name, identity))
	return &partFile{path: path, identity: identity, status: FileStatus{Path: path}}
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

// note changes the status.
func (pf *partFile) note(change func(*FileStatus)) {
	pf.mu.Lock()
	defer pf.mu.Unlock()
	change(&pf.status)
}

// fileStatus returns the status of the part's file.
func (p *part[T]) fileStatus() FileStatus {
	p.file.mu.Lock()
	defer p.file.mu.Unlock()
	st := p.file.status
	st.Serving = !st.AsOf.IsZero() && !p.beginning.over()
	return st
}

// Progress describes how far a part that has not synced has got.
func (st FileStatus) Progress(r reflector.Status) string {
	if !st.Serving {
		return fmt.Sprintf("%s, %d objects so far", r.Phase, r.Gathered)
	}
	age := max(0, time.Since(st.AsOf)) // the clock may have been set back
	return fmt.Sprintf("%s, with %d objects from a file, of %v ago", r.Phase, st.Loaded, age.Round(time.Second))
}
