package file

import (
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// maxHeader is the maximum size of a header in bytes.
const maxHeader = 64 << 10

// Header describes the records of a file.
type Header struct {
	// Identity describes the objects and their origin, such as the cluster's uid, the type, the
	// scope, and what was trimmed. The caller chooses names and values.
	Identity map[string]string
	// ResourceVersions are the versions of the collection that the records represent, by namespace;
	// the empty name stands for a collection that is not divided by namespace.
	ResourceVersions map[string]string
	// Written is when writing began, by the local clock.
	Written time.Time
}

// Check returns an error that wraps ErrIdentity and lists the differences, unless the file's
// identity is exactly this one.
func (h Header) Check(identity map[string]string) error {
	names := slices.Collect(maps.Keys(identity))
	for name := range h.Identity {
		if _, ok := identity[name]; !ok {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	var differ []string
	for _, name := range names {
		want, wanted := identity[name]
		if got, has := h.Identity[name]; got != want || has != wanted {
			differ = append(differ, fmt.Sprintf("its %s is %q, not %q", name, got, want))
		}
	}
	if differ == nil {
		return nil
	}
	return fmt.Errorf("%w: %s", ErrIdentity, strings.Join(differ, "; "))
}

func (h Header) append(b []byte) []byte {
	b = appendMap(appendMap(b, h.Identity), h.ResourceVersions)
	return binary.AppendUvarint(b, uint64(h.Written.UnixNano()))
}

func parseHeader(payload []byte) (Header, error) {
	if len(payload) > maxHeader {
		return Header{}, fmt.Errorf("has %d bytes, over the limit of %d", len(payload), maxHeader)
	}
	v := values{rest: payload}
	h := Header{Identity: v.stringMap(), ResourceVersions: v.stringMap(), Written: time.Unix(0, int64(v.number()))}
	return h, v.end()
}
