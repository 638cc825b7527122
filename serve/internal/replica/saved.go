package replica

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"k8s.io/client-go/rest"

	"github.com/tidings/tidings/internal/codec"
	"github.com/tidings/tidings/internal/fold"
	"github.com/tidings/tidings/internal/fold/file"
	"github.com/tidings/tidings/internal/intake"
	"github.com/tidings/tidings/internal/protocol"
	"github.com/tidings/tidings/internal/store"
	"github.com/tidings/tidings/object"
)

// SavedFile keeps the objects of one resource on disk, so that the next start watches from their version. The journal
// is not kept: watches from before the start get 410.
type SavedFile struct {
	path   string
	server string // identifies the API server
	every  time.Duration
	logger *slog.Logger
}

// savedFormat changes when files of earlier releases must not be read any more.
const savedFormat = "serve-1"

// NewSavedFile returns the file in dir of a resource of the API server that a config leads to.
func NewSavedFile(
	dir, resource string, config *rest.Config, every time.Duration, logger *slog.Logger,
) (*SavedFile, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("serve: the directory for saved objects (--dir): %w", err)
	}
	hash := sha256.New()
	fmt.Fprintf(hash, "%q %q %q", config.Host, config.CAFile, config.CAData)
	return &SavedFile{
		path: filepath.Join(dir, resource+".tidings"), server: hex.EncodeToString(hash.Sum(nil)),
		every: every, logger: logger,
	}, nil
}

// identity is what a file has to be of.
func (f *SavedFile) identity(t *protocol.ResourceType) map[string]string {
	return map[string]string{"format": savedFormat, "server": f.server, "resource": t.GroupVersionResource.String()}
}

// save writes the objects, unless they have not been listed yet. They are a snapshot: nobody waits for the disk.
func (f *SavedFile) save(c *Collection, t *protocol.ResourceType) error {
	objects, version := c.contents()
	if version == 0 {
		return nil
	}
	header := file.Header{
		Identity: f.identity(t), ResourceVersions: map[string]string{"": Format(version)}, Written: time.Now(),
	}
	var packer fold.Packer
	return file.WriteFile(f.path, header, file.Options{}, func(w *file.Writer) error {
		var last *fold.Dictionary
		for h := range objects.AllHeld("") { // neighbors resemble each other
			data, _ := h.Object().Encoding()
			packed := packer.Pack(data, last)
			last = packed.Dictionary()
			record := file.Record{
				Namespace: h.Key().Namespace, Name: h.Key().Name, UID: string(h.UID()),
				ResourceVersion: h.ResourceVersion(), Object: packed,
			}
			if err := w.Write(record); err != nil {
				return err
			}
		}
		return nil
	})
}

// discard removes the file: its objects were removed together with their resource.
func (f *SavedFile) discard(ctx context.Context) {
	if err := os.Remove(f.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		f.logger.WarnContext(ctx, "objects of a removed resource stay saved", "error", err)
	}
}

// keep saves the objects until ctx ends, and then once more.
func (f *SavedFile) keep(ctx context.Context, c *Collection, t *protocol.ResourceType) {
	tick := time.NewTicker(f.every)
	defer tick.Stop()
	for ended := false; !ended; {
		select {
		case <-tick.C:
		case <-ctx.Done():
			ended = true
		}
		if err := f.save(c, t); err != nil {
			f.logger.WarnContext(ctx, "the objects are not saved", "error", err)
		}
	}
}

// load adds what the file holds to objects, and returns the key of the newest one.
func (f *SavedFile) load(
	t *protocol.ResourceType, objects intake.Gathering[*codec.Raw],
) (version uint64, newest object.Key, err error) {
	last := uint64(0)
	err = file.ReadFile(f.path, file.Options{}, func(r *file.Reader) error {
		if err := r.Header().Check(f.identity(t)); err != nil {
			return err
		}
		if version, err = protocol.ParseVersion(r.Header().ResourceVersions[""]); err != nil {
			return err
		}
		for record, err := range r.Records() {
			if err != nil {
				return err
			}
			data, err := record.Object.Open(nil)
			if err != nil {
				return err
			}
			raw, err := codec.ParseRaw(data, t.BuiltIn)
			if err != nil {
				return err
			}
			objects.Add(intake.Received[*codec.Raw]{Object: raw})
			if v, err := protocol.ParseVersion(raw.ResourceVersion); err == nil && v > last {
				last, newest = v, object.KeyOf(raw)
			}
		}
		return nil
	})
	return version, newest, err
}

// savedHolder is a collection that begins with what was saved.
type savedHolder struct {
	holder
	file  *SavedFile
	found *Found
}

// Resume implements intake.Holder: it fills the collection from the file. Nothing is served from it before the watch
// from its version is open.
func (h savedHolder) Resume(ctx context.Context) (none intake.Contents, err error) {
	objects := h.gather(0)
	defer objects.Close()
	version, newest, err := h.file.load(&h.found.ResourceType, objects)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return none, nil
	case err != nil || version == 0:
		h.file.logger.WarnContext(ctx, "the saved objects cannot be used; they are listed instead", "error", err)
		return none, nil
	}
	h.restore(objects.Collection(), version)
	return intake.Contents{ResourceVersion: Format(version), Newest: newest}, nil
}

// OnResume implements intake.Holder.
func (h savedHolder) OnResume(context.Context, string) { h.confirm() }

// contents returns the objects and the version that they are current to; 0 if nothing is known.
func (c *Collection) contents() (*store.Snapshot[*codec.Raw], uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.unconfirmed {
		return nil, 0
	}
	return c.snapshot, c.version
}

// restore fills an empty collection with a saved state, which is not served before it is confirmed.
func (c *Collection) restore(objects object.Collection[*codec.Raw], version uint64) {
	c.writing.Lock()
	defer c.writing.Unlock()
	c.replace(objects, version, 0)
	bytes := c.sizeOfObjects()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.snapshot, c.bytes = c.writer.Store().Snapshot(), bytes
	c.version, c.unconfirmed = version, true
	c.journal.clear(version)
	c.topics.lose(version)
}

// confirm is called when the API server goes on from the restored state.
func (c *Collection) confirm() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.unconfirmed = false
	c.wake()
}
