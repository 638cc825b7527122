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

	"github.com/tidings/tidings/internal/fold/file"
	"github.com/tidings/tidings/object"
	"github.com/tidings/tidings/reflector"
	"github.com/tidings/tidings/source"
)

// fileFormat changes when files of earlier programs must not be read any more.
const fileFormat = "1"

// fileSuffix ends the names of the files.
const fileSuffix = ".tidings"

// FileOptions say where and how the informers of a factory save their objects.
type FileOptions struct {
	Dir string
	// Key encrypts the files; empty for no encryption.
	Key []byte
	// Every is how often an informer saves its objects; 0 means 5 minutes.
	Every time.Duration
	// Secrets says that Secrets may be saved. It needs a key.
	Secrets bool
	// TransformVersion names what the transforms do. Informers with a transform are not saved without it.
	TransformVersion string
	// Cluster returns what tells the cluster from others. An error is one of the moment. Nil says that nobody knows.
	Cluster func(context.Context) (string, error)
}

// check says what is wrong with the options.
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

// FileStatus is what is known of the file of a part.
type FileStatus struct {
	// Path is empty if nothing is saved.
	Path string
	// Loaded is how many objects the part began with, and AsOf when they were the server's state for certain. AsOf is zero
	// if the part began with a list.
	Loaded int
	AsOf   time.Time
	// Serving is set while the part shows what was in the file and nothing else is known.
	Serving bool
	// Discarded is why the file that was there at the start was not used.
	Discarded error
	// Saves counts how often the file was written, SavedAt is when that was last, with SavedObjects and SavedBytes.
	Saves        uint64
	SavedAt      time.Time
	SavedObjects int
	SavedBytes   int64
	// Failures counts the attempts that failed. Err is why the objects are not saved now; nil if they are.
	Failures uint64
	Err      error
}

// files saves and loads the objects of one informer.
type files[T object.Object] struct {
	FileOptions
	inf      *Informer[T]
	typ      reflect.Type // of the objects
	codec    *source.Codec[T]
	identity map[string]string // without cluster and namespace
	refused  error             // why nothing is saved or loaded
	done     chan struct{}     // closed when the goroutine that saves has ended
	caller   caller
}

// errNotSaved begins the reasons why an informer is not saved.
var errNotSaved = errors.New("not saved")

// newFiles returns what saves the informer's objects; nil without a directory. inf.mu is held.
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
	if f.refused = f.refusal(); f.refused != nil {
		return f, nil
	}
	codec, err := source.NewCodecAs[T](f.typ, 0)
	if err != nil {
		f.refused = fmt.Errorf("%w: %w", errNotSaved, err)
		return f, nil
	}
	f.codec = codec
	f.identity = f.describe()
	return f, nil
}

var (
	errSecret    = fmt.Errorf("%w: Secrets are saved only if that is asked for (Options.SaveSecrets)", errNotSaved)
	errUnknown   = fmt.Errorf("%w: nobody knows whether the objects are Secrets: their source does not tell the resource (by a method Scope() source.Scope)", errNotSaved)
	errTransform = fmt.Errorf("%w: there is a transform, and no name for what it does (Options.TransformVersion)", errNotSaved)
	errCluster   = fmt.Errorf("%w: nobody knows of which cluster the objects are (Options.ClusterID)", errNotSaved)
)

// cluster returns what tells the cluster from others. The way to the server may lead through functions of the user's: a panic is an error.
func (f *files[T]) cluster(ctx context.Context) (cluster string, err error) {
	defer func() {
		if reason := recover(); reason != nil {
			err = fmt.Errorf("which cluster is it: panic: %v", reason)
		}
	}()
	return f.Cluster(ctx)
}

// refusal says why the objects of the informer are not saved. What the user may not expect is logged.
func (f *files[T]) refusal() (err error) {
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
	f.inf.later.add(func() { f.inf.log.log(slog.LevelWarn, "the objects are not saved", "err", err) })
	return err
}

// secrets is the resource that is not saved unless asked for.
var secrets = schema.GroupResource{Resource: "secrets"}

// isSecret tells whether the informer holds Secrets, or what is known of them.
func isSecret(t reflect.Type, resource schema.GroupVersionResource) bool {
	if t.Kind() == reflect.Pointer && t.Elem().PkgPath() == "k8s.io/api/core/v1" && t.Elem().Name() == "Secret" {
		return true
	}
	return resource.GroupResource() == secrets
}

// mayBeSecret reports whether neither the type nor the resource tells what the objects are.
func mayBeSecret(t reflect.Type, resource schema.GroupVersionResource) bool {
	return resource.Empty() && (t == reflect.TypeFor[*unstructured.Unstructured]() || t == reflect.TypeFor[*metav1.PartialObjectMetadata]())
}

// describe returns what a file must agree on to be read.
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

// partFile is the file of one part.
type partFile struct {
	path     string            // empty if there is none
	identity map[string]string // without the cluster

	mu      sync.Mutex // guards what follows
	status  FileStatus
	version string // that the file is at; empty if that is not known, or the file is wrong
	wrongs  int    // how often the file became wrong
}

// ofPart returns the file of the part of a namespace.
func (f *files[T]) ofPart(namespace string) *partFile {
	if f == nil {
		return nil
	}
	if f.refused != nil {
		return &partFile{status: FileStatus{Err: f.refused}}
	}
	identity := maps.Clone(f.identity)
	identity["namespace"] = namespace
	path := filepath.Join(f.Dir, fileName(f.inf.cfg.Name, identity))
	return &partFile{path: path, identity: identity, status: FileStatus{Path: path}}
}

// fileName returns the name of a file. Files that live side by side differ in the hash: that of everything that two informers of
// one factory can differ in. What only another program can do otherwise is not in it, so that its file is replaced.
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

// plain returns a name that every file system takes, made of s.
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

// noteFile changes the status.
func (pf *partFile) note(change func(*FileStatus)) {
	pf.mu.Lock()
	defer pf.mu.Unlock()
	change(&pf.status)
}

// fileStatus returns the status of the part's file; the zero value if there is none.
func (p *part[T]) fileStatus() FileStatus {
	if p.file == nil {
		return FileStatus{}
	}
	p.file.mu.Lock()
	defer p.file.mu.Unlock()
	st := p.file.status
	st.Serving = !st.AsOf.IsZero() && !p.listed.Load()
	return st
}

// Progress says how far a part has come that has not synced.
func (st FileStatus) Progress(r reflector.Status) string {
	if !st.Serving {
		return fmt.Sprintf("%s, %d objects so far", r.Phase, r.Gathered)
	}
	return fmt.Sprintf("%s, with %d objects from a file, of %v ago", r.Phase, st.Loaded, time.Since(st.AsOf).Round(time.Second))
}
