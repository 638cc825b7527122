package source

import (
	"maps"
	"strings"

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

// jsonDecoder makes the JSON decoder for T.
func jsonDecoder[T object.Object](f form, options wire.Options) (wire.Decoder[T], error) {
	if f != unstructuredForm {
		return json.NewTyped[T](options)
	}
	d, err := json.NewUnstructured(options)
	if err != nil {
		return nil, err
	}
	return any(d).(wire.Decoder[T]), nil
}

// protobufDecoder makes the protobuf decoder for T, nil if T has no protobuf encoding.
func protobufDecoder[T object.Object](options wire.Options) (wire.Decoder[T], error) {
	if !proto.Supports[T]() {
		return nil, nil
	}
	return proto.New[T](options)
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
		Fields: maps.Clone(a.Fields),
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
