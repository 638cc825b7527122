package source

import (
	"maps"
	"strings"

	"github.com/tidings/tidings/internal/wire"
	"github.com/tidings/tidings/internal/wire/json"
	"github.com/tidings/tidings/object"
)

// partialAs asks for metadata only; a server that cannot give it sends whole objects, of which the metadata is read.
const partialAs = ";as=PartialObjectMetadata;g=meta.k8s.io;v=v1"

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

// accept returns the Accept header for what can be read.
func accept(f form, protobuf bool) string {
	types := []string{jsonType}
	if protobuf {
		types = []string{protobufType, jsonType}
	}
	if f == partialForm {
		types = []string{protobufType + partialAs, jsonType + partialAs, jsonType}
	}
	return strings.Join(types, ",")
}

// addStats returns the sum of two decoders' counts.
func addStats(a, b wire.Stats) wire.Stats {
	sum := wire.Stats{
		Objects: a.Objects + b.Objects, Bytes: a.Bytes + b.Bytes,
		Lookups: a.Lookups + b.Lookups, Hits: a.Hits + b.Hits, SharedBytes: a.SharedBytes + b.SharedBytes, Corrupted: a.Corrupted + b.Corrupted,
		TableBytes: a.TableBytes + b.TableBytes, TableEntries: a.TableEntries + b.TableEntries,
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
