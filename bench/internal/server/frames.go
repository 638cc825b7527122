package server

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"iter"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/watch"
)

// Encoding is the encoding of objects.
type Encoding string

// The two encodings of a watch. Typed clients request Protobuf, and clients of unstructured objects JSON.
const (
	Protobuf Encoding = "protobuf"
	JSON     Encoding = "json"
)

// ContentType returns the media type of a watch in this encoding.
func (e Encoding) ContentType() string {
	if e == Protobuf {
		return e.listType() + ";stream=watch"
	}
	return e.listType()
}

// listType returns the media type of a list.
func (e Encoding) listType() string {
	if e == Protobuf {
		return "application/vnd.kubernetes.protobuf"
	}
	return "application/json"
}

// frames are the events of a watch as bytes on the wire, one after the other.
type frames struct {
	data []byte
	ends []int // where each frame ends in data
}

// all iterates over the bytes of the events.
func (f *frames) all() iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		start := 0
		for _, end := range f.ends {
			if !yield(f.data[start:end]) {
				return
			}
			start = end
		}
	}
}

func (f *frames) append(frame []byte) {
	f.data = append(f.data, frame...)
	f.ends = append(f.ends, len(f.data))
}

// Encode returns one event as an API server encodes it. obj must have its kind set.
func (e Encoding) Encode(kind watch.EventType, obj runtime.Object) ([]byte, error) {
	if e == Protobuf {
		return encodeProtobuf(kind, obj)
	}
	raw, err := json.Marshal(obj)
	if err != nil {
		return nil, fmt.Errorf("encode %s event: %w", kind, err)
	}
	line, err := json.Marshal(metav1.WatchEvent{Type: string(kind), Object: runtime.RawExtension{Raw: raw}})
	return append(line, '\n'), err
}

func encodeProtobuf(kind watch.EventType, obj runtime.Object) ([]byte, error) {
	var raw bytes.Buffer
	if err := protobuf.NewSerializer(nil, nil).Encode(obj, &raw); err != nil {
		return nil, fmt.Errorf("encode %s event: %w", kind, err)
	}
	event, err := (&metav1.WatchEvent{Type: string(kind), Object: runtime.RawExtension{Raw: raw.Bytes()}}).Marshal()
	if err != nil {
		return nil, fmt.Errorf("encode %s event: %w", kind, err)
	}
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(event))), event...), nil
}
