package measure

import (
	"reflect"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/tidings/tidings/internal/wire"
	"github.com/tidings/tidings/internal/wire/json"
	"github.com/tidings/tidings/internal/wire/proto"
	"github.com/tidings/tidings/object"
	"github.com/tidings/tidings/ondemand"
)

// managedFields is the field that the "trimmed" figures leave out.
const managedFields = "metadata.managedFields"

// kind creates the caches for the objects of one kind.
type kind struct {
	encoding Encoding
	// Each of these returns an empty cache with room for n objects.
	clientGo, tidings func(n int, trim bool) (cache, error)
	// metadata returns an empty cache of the metadata alone, as for objects on demand.
	metadata func(n int) (cache, error)
	// example is an object of the Go type.
	example object.Object
}

// message is a Go type with generated protobuf code.
type message[S any] interface {
	*S
	object.Object
	Unmarshal(data []byte) error
}

// typedKind compares the generated decoder with ours.
func typedKind[S any, T message[S]]() kind {
	generated := func(data []byte) (T, error) {
		o := T(new(S))
		return o, o.Unmarshal(data)
	}
	return kind{
		encoding: Protobuf,
		example:  T(new(S)),
		clientGo: func(n int, trim bool) (cache, error) { return newClientGoCache(n, trimmed(generated, trim)), nil },
		tidings: func(n int, trim bool) (cache, error) {
			decoder, err := proto.New[T](options(trim))
			if err != nil {
				return nil, err
			}
			return newTidingsCache(n, decoder), nil
		},
		metadata: func(n int) (cache, error) {
			// In every type the metadata has the number that it has here; all other fields are skipped.
			decoder, err := proto.New[*metav1.PartialObjectMetadata](wire.Options{Trim: ondemand.MetadataTrim()})
			if err != nil {
				return nil, err
			}
			return newTidingsCache(n, decoder), nil
		},
	}
}

// unstructuredKind compares upstream's unstructured objects with ours. apiVersion and kindName are for objects
// without them, such as the items of lists of built-in kinds.
func unstructuredKind(apiVersion, kindName string) kind {
	upstream := func(data []byte) (*unstructured.Unstructured, error) {
		o := &unstructured.Unstructured{}
		if err := utiljson.Unmarshal(data, &o.Object); err != nil {
			return nil, err
		}
		if o.GetKind() == "" {
			o.SetAPIVersion(apiVersion)
			o.SetKind(kindName)
		}
		return o, nil
	}
	return kind{
		encoding: JSON,
		example:  &unstructured.Unstructured{},
		clientGo: func(n int, trim bool) (cache, error) { return newClientGoCache(n, trimmed(upstream, trim)), nil },
		tidings: func(n int, trim bool) (cache, error) {
			decoder, err := json.NewUnstructured(options(trim))
			if err != nil {
				return nil, err
			}
			decoder.SetDefaultKind(apiVersion, kindName)
			return newTidingsCache(n, decoder), nil
		},
		metadata: func(n int) (cache, error) {
			typ := reflect.TypeFor[*metav1.PartialObjectMetadata]()
			decoder, err := json.NewTypedAs[*metav1.PartialObjectMetadata](typ,
				wire.Options{Trim: ondemand.MetadataTrim()})
			if err != nil {
				return nil, err
			}
			return newTidingsCache(n, decoder), nil
		},
	}
}

// trimmed drops the fields after decoding, as a client-go transform does to save memory.
func trimmed[T metav1.Object](decode func([]byte) (T, error), trim bool) func([]byte) (T, error) {
	if !trim {
		return decode
	}
	return func(data []byte) (T, error) {
		o, err := decode(data)
		if err == nil {
			o.SetManagedFields(nil)
		}
		return o, err
	}
}

func options(trim bool) wire.Options {
	if !trim {
		return wire.Options{}
	}
	return wire.Options{Trim: []string{managedFields}}
}
