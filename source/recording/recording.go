package recording

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/tidings/tidings/source"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Recording is a recording opened for playing. It may be played several times, even concurrently.
type Recording struct {
	reader      io.ReaderAt
	size        int64
	began       time.Time // zero if the file does not say
	estimate    time.Time // of began, if the file does not say
	file        io.Closer // nil if the caller owns the reader
	collections []*recordedCollection
	calls       []*call
	duration    time.Duration
	entries     int
	end         string // from the last entry; empty if that is missing
	cutOff      bool   // the last line is incomplete
}

// recordedCollection is a collection with its lists and watches in the order in which they began.
type recordedCollection struct {
	scope source.Scope
	calls []*call
}

// isVersionCheck reports whether the i-th call is a list that was made only to see the server's
// version: of one object, and without further pages.
func (c *recordedCollection) isVersionCheck(i int) bool {
	if i >= len(c.calls) || c.calls[i].list == nil {
		return false
	}
	l := c.calls[i].list
	paged := i+1 < len(c.calls) && c.calls[i+1].list != nil && c.calls[i+1].list.Continue != ""
	return l.Limit == 1 && l.ResourceVersion == "" && l.Continue == "" && !paged
}

// call is one list or watch.
type call struct {
	at      time.Duration
	of      int // index of its collection
	number  int // index in its collection
	list    *listCall
	watch   *watchCall
	entries []span // what it delivered
}

// span is the position of a line in the file.
type span struct {
	offset int64
	length int
}

// Open opens a file and validates all of it. The objects stay in the file; Close closes it. Errors in its contents are
// *FormatErrors.
func Open(path string) (*Recording, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("recording: %w", err)
	}
	rec, err := read(file)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", path, err), file.Close())
	}
	rec.file = file
	if info, err := file.Stat(); err == nil && rec.began.IsZero() {
		rec.estimate = info.ModTime().Add(-rec.duration)
	}
	return rec, nil
}

func read(file *os.File) (*Recording, error) {
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, errors.New("it is not a regular file, as playing requires: save it to one first")
	}
	return Read(file, info.Size())
}

// Read is like Open, for a recording that is not in a file of its own: the first size bytes of from.
func Read(from io.ReaderAt, size int64) (*Recording, error) {
	rec := &Recording{reader: from, size: size}
	in := bufio.NewReaderSize(io.NewSectionReader(from, 0, size), 64<<10)
	var buf bytes.Buffer
	for offset, number := int64(0), 1; ; number++ {
		text, err := readLine(in, &buf)
		if err == io.EOF && len(text) == 0 {
			return rec, rec.complete()
		}
		if err == nil || err == io.EOF {
			err = rec.addLine(text, span{offset, len(text)})
		}
		if err == errCutOff && rec.entries > 0 {
			rec.cutOff = true
			return rec, nil
		}
		if err != nil {
			return nil, &FormatError{Line: number, Offset: offset, Err: err}
		}
		offset += int64(len(text))
	}
}

// complete checks the recording after its last entry.
func (rec *Recording) complete() error {
	if rec.entries == 0 {
		return &FormatError{Line: 1, Err: errors.New("the file is empty")}
	}
	return nil
}

// addLine parses and adds a line.
func (rec *Recording) addLine(text []byte, at span) error {
	e, err := parse(text)
	if rec.entries == 0 {
		if err != nil {
			return fmt.Errorf("this is not a recording: %w", err)
		}
		return rec.begin(e)
	}
	if err != nil {
		return err
	}
	rec.entries++
	if rec.end != "" {
		return errors.New("there are entries after the end")
	}
	if now := time.Duration(e.At); now >= 0 {
		rec.duration = max(rec.duration, now)
	} else {
		return fmt.Errorf("the time %d is before the beginning", e.At)
	}
	switch {
	case e.Collection != nil:
		return rec.addCollection(*e.Collection)
	case e.List != nil:
		return rec.addCall(e.List.Collection, e.Call, &call{at: time.Duration(e.At), list: e.List})
	case e.Watch != nil:
		return rec.addCall(e.Watch.Collection, e.Call, &call{at: time.Duration(e.At), watch: e.Watch})
	case e.End != "":
		rec.end = e.End
		return nil
	}
	return rec.addEntry(e, at)
}

func (rec *Recording) begin(e entry) error {
	switch {
	case e.Header == nil || e.Header.Format != formatName:
		return errors.New("this is not a recording: it does not begin with a header")
	case e.Header.Version != formatVersion:
		return fmt.Errorf("the recording has format version %d; this program reads version %d: use the program that wrote it, or a newer one", e.Header.Version, formatVersion)
	}
	rec.entries++
	rec.began = e.Header.Began
	return nil
}

func (rec *Recording) addCollection(c collection) error {
	if len(rec.collections) == maxCollections {
		return fmt.Errorf("there are more than %d collections", maxCollections)
	}
	scope := source.Scope{
		Resource:  schema.GroupVersionResource{Group: c.Group, Version: c.Version, Resource: c.Resource},
		Namespace: c.Namespace, Labels: c.Labels, Fields: c.Fields, Trim: c.Trim,
	}
	if c.Kind != "" {
		scope.Kind = scope.Resource.GroupVersion().WithKind(c.Kind)
	}
	rec.collections = append(rec.collections, &recordedCollection{scope: scope})
	return nil
}

// maxCollections limits the number of collections; it is far more than any program has.
const maxCollections = 100_000

func (rec *Recording) addCall(collection, number int, c *call) error {
	if number != len(rec.calls)+1 {
		return fmt.Errorf("request %d follows request %d", number, len(rec.calls))
	}
	rec.calls = append(rec.calls, c)
	if collection < 1 || collection > len(rec.collections) {
		return fmt.Errorf("request %d is of collection %d, which is not described", number, collection)
	}
	of := rec.collections[collection-1]
	c.of, c.number = collection-1, len(of.calls)
	of.calls = append(of.calls, c)
	return nil
}

func (rec *Recording) addEntry(e entry, at span) error {
	if e.Call < 1 || e.Call > len(rec.calls) {
		return fmt.Errorf("the entry belongs to request %d, which has not begun", e.Call)
	}
	c := rec.calls[e.Call-1]
	c.entries = append(c.entries, at)
	return nil
}

// load rereads an entry from the file.
func (rec *Recording) load(s span) (entry, error) {
	text := make([]byte, s.length)
	if _, err := rec.reader.ReadAt(text, s.offset); err != nil && !(err == io.EOF && s.length > 0) {
		return entry{}, fmt.Errorf("recording: %w", err)
	}
	e, err := parse(text)
	if err != nil {
		return e, fmt.Errorf("recording: at byte %d: %w", s.offset, err)
	}
	return e, nil
}

// Collections returns the recorded collections: one scope for each source to which a request was made.
func (rec *Recording) Collections() []source.Scope {
	var scopes []source.Scope
	for _, c := range rec.collections {
		scopes = append(scopes, c.scope)
	}
	return scopes
}

// Began returns when the recording began. Files of earlier releases do not say: exact is then false, and the time is
// that of the file's last modification less Duration, or zero if there is no file.
func (rec *Recording) Began() (began time.Time, exact bool) {
	if !rec.began.IsZero() {
		return rec.began, true
	}
	return rec.estimate, false
}

// Duration returns the time covered by the recording.
func (rec *Recording) Duration() time.Duration { return rec.duration }

// Incomplete returns why the recording ends before its recorder was closed: because it reached its
// size limit, the program ended, or the file was truncated. It is nil if the recording is complete.
func (rec *Recording) Incomplete() error {
	switch {
	case rec.cutOff:
		return errCutOff
	case rec.end == "full":
		return ErrFull
	case rec.end == "":
		return errors.New("the recorded program ended without closing the file")
	}
	return nil
}

// Close closes the file. All players must have ended.
func (rec *Recording) Close() error {
	if rec.file == nil {
		return nil
	}
	return rec.file.Close()
}
