package recording

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"time"

	"github.com/tidings/tidings/object"
	"github.com/tidings/tidings/source"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	formatName    = "tidings-recording"
	formatVersion = 1
	// maxLine limits a line. It has room for an object of the default maximum size that takes twice as much as JSON.
	maxLine = 2*source.DefaultMaxObjectBytes + 1<<20
	// sumLength is the length of the checksum and the space after it.
	sumLength = 9
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// entry is one line. At most one of the fields after Call is set.
type entry struct {
	// At is the time in nanoseconds since the recording began.
	At int64 `json:"t"`
	// Call is the number of the list or watch that the entry belongs to, counted from 1.
	Call int `json:"c,omitempty"`

	Header     *header     `json:"header,omitempty"`
	Collection *collection `json:"collection,omitempty"`
	List       *listCall   `json:"list,omitempty"`
	Watch      *watchCall  `json:"watch,omitempty"`
	// Opened says that the server accepted the watch.
	Opened bool `json:"opened,omitempty"`
	// Item is an object of a list, Skipped one that could not be decoded.
	Item    json.RawMessage `json:"item,omitempty"`
	Skipped *failure        `json:"skipped,omitempty"`
	// Events are events that arrived together.
	Events []event `json:"events,omitempty"`
	// Result ends a list that succeeded; Failure ends a list or watch otherwise.
	Result  *listResult `json:"result,omitempty"`
	Failure *failure    `json:"failure,omitempty"`
	// End marks the last entry and says why the recording ended.
	End string `json:"end,omitempty"`
}

type header struct {
	Format  string `json:"format"`
	Version int    `json:"version"`
	// Began is when the recording began. Files of earlier releases do not have it.
	Began time.Time `json:"began,omitzero"`
}

// collection describes what a source serves.
type collection struct {
	Group     string   `json:"group,omitempty"`
	Version   string   `json:"version,omitempty"`
	Resource  string   `json:"resource,omitempty"`
	Kind      string   `json:"kind,omitempty"`
	Namespace string   `json:"namespace,omitempty"`
	Labels    string   `json:"labels,omitempty"`
	Fields    string   `json:"fields,omitempty"`
	Trim      []string `json:"trim,omitempty"`
}

// listCall begins a list of the collection with the given number.
type listCall struct {
	Collection           int    `json:"of"`
	ResourceVersion      string `json:"resourceVersion,omitempty"`
	ResourceVersionMatch string `json:"resourceVersionMatch,omitempty"`
	Limit                int64  `json:"limit,omitempty"`
	Continue             string `json:"continue,omitempty"`
}

// watchCall begins a watch.
type watchCall struct {
	Collection      int    `json:"of"`
	ResourceVersion string `json:"resourceVersion,omitempty"`
	InitialEvents   bool   `json:"initialEvents,omitempty"`
	TimeoutSeconds  int64  `json:"timeoutSeconds,omitempty"`
}

type listResult struct {
	ResourceVersion string `json:"resourceVersion,omitempty"`
	Continue        string `json:"continue,omitempty"`
}

type event struct {
	Type             string          `json:"type"`
	Object           json.RawMessage `json:"object,omitempty"`
	ResourceVersion  string          `json:"resourceVersion,omitempty"`
	InitialEventsEnd bool            `json:"initialEventsEnd,omitempty"`
	Err              *failure        `json:"error,omitempty"`
}

// failure is an error; see failure.go.
type failure struct {
	Code string `json:"code"`
	Text string `json:"text,omitempty"`
	// Status is an API server's response.
	Status *metav1.Status `json:"status,omitempty"`
	// The next four describe an error about one object.
	Key             *object.Key `json:"key,omitempty"`
	UID             string      `json:"uid,omitempty"`
	ResourceVersion string      `json:"resourceVersion,omitempty"`
	Event           string      `json:"event,omitempty"`
	// Kinds are the actual and the wanted kind.
	Kinds *[2]metav1.GroupVersionKind `json:"kinds,omitempty"`
}

// FormatError reports that a file is not a recording, or is damaged.
type FormatError struct {
	// Line is the number of the line, counted from 1, and Offset its position in bytes, counted from 0.
	Line   int
	Offset int64
	Err    error
}

// Error says where the damage is.
func (e *FormatError) Error() string {
	return fmt.Sprintf("recording: line %d, at byte %d: %v", e.Line, e.Offset, e.Err)
}

// Unwrap returns Err.
func (e *FormatError) Unwrap() error { return e.Err }

// line encodes an entry as a line of the file.
func line(e entry) ([]byte, error) {
	data, err := json.Marshal(e)
	if err != nil {
		return nil, err
	}
	if len(data)+sumLength >= maxLine {
		return nil, fmt.Errorf("an entry of %d bytes is larger than the limit of %d", len(data), maxLine)
	}
	return fmt.Appendf(make([]byte, 0, len(data)+sumLength+1), "%08x %s\n", crc32.Checksum(data, castagnoli), data), nil
}

var (
	errCutOff   = errors.New("the file ends in the middle of a line")
	errChecksum = errors.New("the checksum is wrong: the line was damaged")
	errTooLong  = fmt.Errorf("the line is longer than %d bytes", maxLine)
)

// parse decodes a line, including its newline.
func parse(text []byte) (e entry, err error) {
	if len(text) == 0 || text[len(text)-1] != '\n' {
		return e, errCutOff
	}
	text = text[:len(text)-1]
	if len(text) < sumLength || text[sumLength-1] != ' ' {
		return e, errors.New("the line does not begin with a checksum")
	}
	var sum [4]byte
	if _, err := hex.Decode(sum[:], text[:sumLength-1]); err != nil {
		return e, errors.New("the line does not begin with a checksum")
	}
	data := text[sumLength:]
	if crc32.Checksum(data, castagnoli) != uint32(sum[0])<<24|uint32(sum[1])<<16|uint32(sum[2])<<8|uint32(sum[3]) {
		return e, errChecksum
	}
	if err := json.Unmarshal(data, &e); err != nil {
		return e, fmt.Errorf("the entry is not valid JSON: %w", err)
	}
	return e, nil
}

// readLine reads up to and including a newline. The bytes are valid until into is reused; at the
// end of the file they come with io.EOF.
func readLine(r *bufio.Reader, into *bytes.Buffer) ([]byte, error) {
	into.Reset()
	for {
		part, err := r.ReadSlice('\n')
		into.Write(part)
		switch {
		case into.Len() > maxLine:
			return nil, errTooLong
		case err == nil, err == io.EOF:
			return into.Bytes(), err
		case err != bufio.ErrBufferFull:
			return nil, err
		}
	}
}
