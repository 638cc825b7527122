package codec

import (
	"encoding/json"
	"errors"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	kjson "sigs.k8s.io/json"

	"github.com/tidings/tidings/internal/redact"
	"github.com/tidings/tidings/internal/wire"
	"github.com/tidings/tidings/internal/wire/proto"
	"github.com/tidings/tidings/object"
)

// Raw is an object that is kept as the bytes in which the server sent it. Of the metadata, only the
// name, namespace, uid, resource version and labels are decoded. Raws are read-only.
type Raw struct {
	metav1.ObjectMeta
	kind     schema.GroupVersionKind // set for JSON, which contains it
	data     []byte
	protobuf bool
}

// ParseRaw returns the object with an encoding that Raw.Encoding returned.
func ParseRaw(data []byte, protobuf bool) (*Raw, error) {
	return RawDecoder(protobuf).Decode(data, nil)
}

// RawDecoder returns a decoder of protobuf or JSON that keeps each object's bytes.
func RawDecoder(protobuf bool) wire.Decoder[*Raw] {
	if protobuf {
		return rawProtobuf{}
	}
	return rawJSON{}
}

// Encoding returns the object's bytes as they are in a list, and whether they are protobuf; otherwise they are JSON.
func (r *Raw) Encoding() (data []byte, isProtobuf bool) { return r.data, r.protobuf }

// GetObjectKind is part of runtime.Object. The kind cannot be changed.
func (r *Raw) GetObjectKind() schema.ObjectKind { return rawKind{r} }

type rawKind struct{ raw *Raw }

func (k rawKind) GroupVersionKind() schema.GroupVersionKind { return k.raw.kind }
func (rawKind) SetGroupVersionKind(schema.GroupVersionKind) {}

// DeepCopyObject is part of runtime.Object. The bytes never change, so they are shared.
func (r *Raw) DeepCopyObject() runtime.Object {
	c := *r
	r.ObjectMeta.DeepCopyInto(&c.ObjectMeta)
	return &c
}

// WithResourceVersion returns the object with another resource version, which its bytes have, too.
func (r *Raw) WithResourceVersion(version string) object.Object {
	set := setJSONVersion
	if r.protobuf {
		set = setProtobufVersion
	}
	data, err := set(r.data, version)
	if err != nil {
		data = r.data // cannot happen: they have been read before
	}
	c := *r
	c.ResourceVersion, c.data = version, data
	return &c
}

func setProtobufVersion(data []byte, version string) ([]byte, error) {
	from, to, err := fieldRange(data, 1)
	if err != nil {
		return nil, err
	}
	meta := proto.StartOf(data, 1)
	at, end, err := fieldRange(meta, metaVersionField)
	if err != nil {
		return nil, err
	}
	changed := protowire.AppendTag(slices.Clone(meta[:at]), metaVersionField, protowire.BytesType)
	changed = append(protowire.AppendString(changed, version), meta[end:]...)
	out := protowire.AppendTag(slices.Clone(data[:from]), 1, protowire.BytesType)
	return append(protowire.AppendBytes(out, changed), data[to:]...), nil
}

// The fields of metav1.ObjectMeta that a Raw has decoded.
const (
	metaNameField      = 1
	metaNamespaceField = 3
	metaUIDField       = 5
	metaVersionField   = 6
	metaLabelsField    = 11
)

// fieldRange returns where a field with bytes is, with its number; or where it would be, as an empty range.
func fieldRange(data []byte, number protowire.Number) (from, to int, err error) {
	for i := 0; i < len(data); {
		num, kind, n := protowire.ConsumeTag(data[i:])
		if n < 0 {
			return 0, 0, protowire.ParseError(n)
		}
		m := protowire.ConsumeFieldValue(num, kind, data[i+n:])
		if m < 0 {
			return 0, 0, protowire.ParseError(m)
		}
		switch {
		case num == number && kind == protowire.BytesType:
			return i, i + n + m, nil
		case num > number:
			return i, i, nil
		}
		i += n + m
	}
	return len(data), len(data), nil
}

func setJSONVersion(data []byte, version string) ([]byte, error) {
	var content map[string]any
	if err := kjson.UnmarshalCaseSensitivePreserveInts(data, &content); err != nil {
		return nil, redact.Decoding(err)
	}
	metadata, ok := content["metadata"].(map[string]any)
	if !ok {
		return nil, errNoMetadata
	}
	metadata["resourceVersion"] = version
	return json.Marshal(content)
}

var errNoMetadata = errors.New("the object has no metadata")

// noTables is the part of a wire.Decoder that remembers what it has seen; a Raw shares nothing.
type noTables struct{}

func (noTables) Recheck()          {}
func (noTables) Stats() wire.Stats { return wire.Stats{} }

// rawProtobuf is a wire.Decoder of protobuf.
type rawProtobuf struct{ noTables }

// Peek implements wire.Decoder.
func (rawProtobuf) Peek(data []byte) (wire.Meta, bool) {
	m := proto.StartOf(data, 1)
	meta := wire.Meta{
		Name: proto.StartOf(m, metaNameField), Namespace: proto.StartOf(m, metaNamespaceField),
		UID: proto.StartOf(m, metaUIDField), ResourceVersion: proto.StartOf(m, metaVersionField),
	}
	return meta, len(meta.Name) > 0
}

// Decode implements wire.Decoder.
func (rawProtobuf) Decode(data []byte, _ *Raw) (*Raw, error) {
	r := &Raw{data: slices.Clone(data), protobuf: true}
	err := eachBytes(r.data, func(num protowire.Number, content []byte) error {
		if num != 1 {
			return nil
		}
		return eachBytes(content, r.setMeta)
	})
	if err != nil {
		return nil, err
	}
	return r, nil
}

// setMeta sets a field of the metadata. The strings share the memory of the encoding.
func (r *Raw) setMeta(num protowire.Number, content []byte) error {
	switch num {
	case metaNameField:
		r.Name = wire.View(content)
	case metaNamespaceField:
		r.Namespace = wire.View(content)
	case metaUIDField:
		r.UID = types.UID(wire.View(content))
	case metaVersionField:
		r.ResourceVersion = wire.View(content)
	case metaLabelsField:
		var key, value string
		err := eachBytes(content, func(num protowire.Number, content []byte) error {
			switch num {
			case 1:
				key = wire.View(content)
			case 2:
				value = wire.View(content)
			}
			return nil
		})
		if r.Labels == nil {
			r.Labels = make(map[string]string)
		}
		r.Labels[key] = value
		return err
	}
	return nil
}

// eachBytes calls f for every field of a message whose value has a length.
func eachBytes(data []byte, f func(num protowire.Number, content []byte) error) error {
	for len(data) > 0 {
		num, kind, n := protowire.ConsumeTag(data)
		if n < 0 {
			return protowire.ParseError(n)
		}
		data = data[n:]
		if kind != protowire.BytesType {
			if n = protowire.ConsumeFieldValue(num, kind, data); n < 0 {
				return protowire.ParseError(n)
			}
			data = data[n:]
			continue
		}
		content, n := protowire.ConsumeBytes(data)
		if n < 0 {
			return protowire.ParseError(n)
		}
		if err := f(num, content); err != nil {
			return err
		}
		data = data[n:]
	}
	return nil
}

// rawJSON is a wire.Decoder of JSON.
type rawJSON struct{ noTables }

// Peek implements wire.Decoder. Objects in JSON are decoded and compared.
func (rawJSON) Peek([]byte) (wire.Meta, bool) { return wire.Meta{}, false }

// Decode implements wire.Decoder.
func (rawJSON) Decode(data []byte, _ *Raw) (*Raw, error) {
	var o struct {
		metav1.TypeMeta `json:",inline"`
		Metadata        struct {
			Name            string            `json:"name"`
			Namespace       string            `json:"namespace"`
			UID             types.UID         `json:"uid"`
			ResourceVersion string            `json:"resourceVersion"`
			Labels          map[string]string `json:"labels"`
		} `json:"metadata"`
	}
	if err := kjson.UnmarshalCaseSensitivePreserveInts(data, &o); err != nil {
		return nil, redact.Decoding(err)
	}
	if o.Kind == "" || o.APIVersion == "" {
		return nil, errors.New("the object has no kind")
	}
	m := o.Metadata
	return &Raw{
		ObjectMeta: metav1.ObjectMeta{Name: m.Name, Namespace: m.Namespace, UID: m.UID, ResourceVersion: m.ResourceVersion, Labels: m.Labels},
		kind:       o.GroupVersionKind(), data: slices.Clone(data),
	}, nil
}

var _ object.Object = (*Raw)(nil)
