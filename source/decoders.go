package source

import (
	"maps"
	"reflect"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/tidings/tidings/internal/wire"
	"github.com/tidings/tidings/internal/wire/json"
	"github.com/tidings/tidings/internal/wire/proto"
	"github.com/tidings/tidings/object"
)

// Parameters of media types that request metadata only, for a watch and for a list. From servers
// that do not support them come complete objects, of which only the metadata is used.
const (
	partialAs     = ";as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
	partialListAs = ";as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
)

var unstructuredType = reflect.TypeFor[*unstructured.Unstructured]()

// jsonDecoder returns a JSON decoder for typ, which is T or implements it.
func jsonDecoder[T object.Object](typ reflect.Type, options wire.Options) (wire.Decoder[T], error) {
	if typ != unstructuredType {
		return json.NewTypedAs[T](typ, options)
	}
	d, err := json.NewUnstructured(options)
	if err != nil {
		return nil, err
	}
	if same, ok := any(d).(wire.Decoder[T]); ok {
		return same, nil
	}
	return any(unstructuredAsObject{d}).(wire.Decoder[T]), nil
}

// unstructuredAsObject decodes unstructured objects for callers that know their type only at run time.
type unstructuredAsObject struct{ *json.Unstructured }

// Decode implements wire.Decoder.
func (d unstructuredAsObject) Decode(data []byte, previous object.Object) (object.Object, error) {
	old, _ := previous.(*unstructured.Unstructured)
	u, err := d.Unstructured.Decode(data, old)
	if err != nil {
		return nil, err // not u, which would be a non-nil interface
	}
	return u, nil
}

// protobufDecoder returns a protobuf decoder for typ, which must have such an encoding, and which
// is T or implements it.
func protobufDecoder[T object.Object](typ reflect.Type, options wire.Options) (wire.Decoder[T], error) {
	if typ == reflect.TypeFor[T]() {
		return proto.New[T](options)
	}
	return proto.NewAsInterface[T](typ, options)
}

// accept returns the Accept header; as is the media type parameter that requests metadata only.
func accept(f form, protobuf bool, as string) string {
	types := []string{jsonType}
	if protobuf {
		types = []string{protobufType, jsonType}
	}
	if f == partialForm {
		types = []string{protobufType + as, jsonType + as, jsonType}
	}
	return strings.Join(types, ",")
}

// addStats returns the sum of two decoders' statistics.
func addStats(a, b wire.Stats) wire.Stats {
	sum := wire.Stats{
		Objects: a.Objects + b.Objects, Bytes: a.Bytes + b.Bytes,
		Lookups: a.Lookups + b.Lookups, Hits: a.Hits + b.Hits, SharedBytes: a.SharedBytes + b.SharedBytes,
		Corrupted: a.Corrupted + b.Corrupted, TableBytes: a.TableBytes + b.TableBytes, TableEntries: a.TableEntries + b.TableEntries,
		PlanBytes: a.PlanBytes + b.PlanBytes,
		Fields:    maps.Clone(a.Fields),
	}
	if sum.Fields == nil {
		sum.Fields = make(map[string]wire.FieldStats, len(b.Fields))
	}
	for name, f := range b.Fields {
		have := sum.Fields[name]
		have.Lookups += f.Lookups
		have.Hits += f.Hits
		have.Bytes += f.Bytes
		have.SharedBytes += f.SharedBytes
		sum.Fields[name] = have
	}
	return sum
}
