package protocol

import (
	"google.golang.org/protobuf/encoding/protowire"
	"k8s.io/apimachinery/pkg/fields"
)

// lazyFields are the selectable fields of an encoded object.
type lazyFields struct {
	object   Encoded
	resource *ResourceType
	decoded  fields.Set // nil until needed
}

// podPaths are the field numbers of a pod's texts, in protobuf: what most selectors of agents and schedulers ask for.
var podPaths = map[string][]protowire.Number{
	"spec.nodeName": {2, 10}, "spec.schedulerName": {2, 19}, "spec.serviceAccountName": {2, 8}, "status.phase": {3, 1},
}

// Has implements fields.Fields.
func (f *lazyFields) Has(field string) bool {
	_, found := f.find(field)
	return found || f.all().Has(field)
}

// Get implements fields.Fields.
func (f *lazyFields) Get(field string) string {
	if value, found := f.find(field); found {
		return value
	}
	return f.all().Get(field)
}

// find returns a field that can be read without decoding the object.
func (f *lazyFields) find(field string) (value string, found bool) {
	switch field {
	case "metadata.name":
		return f.object.GetName(), true
	case "metadata.namespace":
		return f.object.GetNamespace(), f.resource.Namespaced
	}
	data, isProtobuf := f.object.Encoding()
	path := podPaths[field]
	if !isProtobuf || path == nil || f.resource.GroupVersionKind() != podKind {
		return "", false
	}
	return textAt(data, path)
}

// textAt returns a text in a message, by its field numbers; "" if it is missing. It returns false
// for a malformed message.
func textAt(data []byte, path []protowire.Number) (string, bool) {
	for _, number := range path {
		var found []byte
		for len(data) > 0 && found == nil {
			n, kind, size := protowire.ConsumeTag(data)
			if size < 0 {
				return "", false
			}
			data = data[size:]
			if size = protowire.ConsumeFieldValue(n, kind, data); size < 0 {
				return "", false
			}
			if n == number && kind == protowire.BytesType {
				found, _ = protowire.ConsumeBytes(data)
			}
			data = data[size:]
		}
		if found == nil {
			return "", true
		}
		data = found
	}
	return string(data), true
}

// all decodes the object. One that cannot be decoded has no fields.
func (f *lazyFields) all() fields.Set {
	if f.decoded == nil {
		f.decoded = fields.Set{}
		if o, err := f.resource.decode(f.object); err == nil || err == ErrLossy {
			f.decoded = f.resource.fieldSet(o)
		}
	}
	return f.decoded
}
