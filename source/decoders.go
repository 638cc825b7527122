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

// partialAs asks for metadata only, of the objects of a watch or of a list; a server that cannot give it sends whole objects, of which
// the metadata is read.
const (
	partialAs     = ";as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
	partialListAs = ";as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
)

var unstructuredType = reflect.TypeFor[*unstructured.Unstructured]()

// jsonDecoder makes the JSON decoder for a type, which is T or has it as an interface.
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

// unstructuredAsObject is the decoder of unstructured objects for callers that know their type at run time only.
type unstructuredAsObject struct{ *json.Unstructured }

// Decode implements wire.Decoder.
func (d unstructuredAsObject) Decode(data []byte, previous object.Object) (object.Object, error) {
	old, _ := previous.(*unstructured.Unstructured)
	u, err := d.Unstructured.Decode(data, old)
	if err != nil {
		return nil, err // and not an interface that holds a nil pointer
	}
	return u, nil
}

// protobufDecoder makes the protobuf decoder for a type that has such an encoding, and is T or has it as an interface.
func protobufDecoder[T object.Object](typ reflect.Type, options wire.Options) (wire.Decoder[T], error) {
	if typ == reflect.TypeFor[T]() {
		return proto.New[T](options)
	}
	return proto.NewAsInterface[T](typ, options)
}

// accept returns the Accept header for what can be read; as is how metadata only is asked for.
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

// addStats returns the sum of two decoders' counts.
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
