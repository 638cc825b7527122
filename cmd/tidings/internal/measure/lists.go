package measure

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
)

// lists serves the encoded objects that were read from the server to an informer, without a
// network: their list in pages, and a watch without events.
type lists struct {
	raw      [][]byte
	kind     schema.GroupVersionKind // of the objects
	encoding Encoding

	once    sync.Once
	watched chan struct{} // closed when a watch begins, when the informer has finished the list
}

func newLists(raw [][]byte, kind schema.GroupVersionKind, encoding Encoding) *lists {
	return &lists{raw: raw, kind: kind, encoding: encoding, watched: make(chan struct{})}
}

// config returns a client configuration whose requests are sent here.
func (l *lists) config() *rest.Config {
	return &rest.Config{Host: "http://in-this-process", Transport: l}
}

// RoundTrip implements http.RoundTripper.
func (l *lists) RoundTrip(r *http.Request) (*http.Response, error) {
	query, contentType := r.URL.Query(), accepts[l.encoding]
	var body io.ReadCloser
	if query.Get("watch") != "" {
		l.once.Do(func() { close(l.watched) })
		body = idleBody{r.Context()}
		if l.encoding == Protobuf {
			contentType += ";stream=watch"
		}
	} else {
		page, err := l.page(query.Get("continue"), query.Get("limit"))
		if err != nil {
			return nil, err
		}
		body = io.NopCloser(bytes.NewReader(page))
	}
	return &http.Response{
		Status: "200 OK", StatusCode: http.StatusOK, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, ContentLength: -1,
		Header: http.Header{"Content-Type": {contentType}}, Body: body, Request: r,
	}, nil
}

// idleBody is the body of a watch without events.
type idleBody struct{ ctx context.Context }

func (s idleBody) Read([]byte) (int, error) {
	<-s.ctx.Done()
	return 0, s.ctx.Err()
}

func (idleBody) Close() error { return nil }

// page returns the page of the list that begins at the token, with up to limit objects.
func (l *lists) page(token, limit string) ([]byte, error) {
	from, _ := strconv.Atoi(token)
	n, _ := strconv.Atoi(limit)
	to := len(l.raw)
	if n > 0 {
		to = min(to, from+n)
	}
	meta := metav1.ListMeta{ResourceVersion: listVersion}
	if to < len(l.raw) {
		meta.Continue = strconv.Itoa(to)
	}
	if l.encoding == Protobuf {
		return l.protobuf(meta, l.raw[from:to])
	}
	return l.json(meta, l.raw[from:to])
}

// listVersion is newer than any object.
const listVersion = "9223372036854775807"

func (l *lists) protobuf(meta metav1.ListMeta, items [][]byte) ([]byte, error) {
	head, err := meta.Marshal()
	if err != nil {
		return nil, err
	}
	raw := appendField(nil, 1, head)
	for _, item := range items {
		raw = appendField(raw, 2, item)
	}
	apiVersion, kind := l.kind.GroupVersion().String(), l.kind.Kind+"List"
	data, err := (&runtime.Unknown{TypeMeta: runtime.TypeMeta{APIVersion: apiVersion, Kind: kind}, Raw: raw}).Marshal()
	return append([]byte("k8s\x00"), data...), err
}

// appendField appends a length-delimited protobuf field.
func appendField(dst []byte, number uint64, data []byte) []byte {
	const lengthDelimited = 2
	dst = binary.AppendUvarint(dst, number<<3|lengthDelimited)
	return append(binary.AppendUvarint(dst, uint64(len(data))), data...)
}

func (l *lists) json(meta metav1.ListMeta, items [][]byte) ([]byte, error) {
	head, err := json.Marshal(struct {
		metav1.TypeMeta `json:",inline"`
		metav1.ListMeta `json:"metadata"`
	}{metav1.TypeMeta{APIVersion: l.kind.GroupVersion().String(), Kind: l.kind.Kind + "List"}, meta})
	if err != nil {
		return nil, err
	}
	out := append(bytes.TrimSuffix(head, []byte("}")), `,"items":[`...)
	out = append(out, bytes.Join(items, []byte(","))...)
	return append(out, "]}"...), nil
}
