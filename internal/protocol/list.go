package protocol

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"
)

// Lists are encoded item by item: an item that is kept encoded is copied from its storage to the connection.

// ListMeta returns the metadata of a page.
func (p *Page) ListMeta() metav1.ListMeta {
	return metav1.ListMeta{ResourceVersion: strconv.FormatUint(p.Version, 10), Continue: p.Continue, RemainingItemCount: p.Remaining}
}

// CheckList rejects a form that lists do not have.
func (e Encoding) CheckList() error {
	if e.As == "PartialObjectMetadata" {
		return errMetadataOfList
	}
	return nil
}

// WriteList writes a list. In protobuf it holds the encoded items that are not kept encoded, in
// memory, and an error comes before the first write unless it is the writer's. In JSON it does not,
// and an error may come between items.
func (e Encoding) WriteList(w io.Writer, items []runtime.Object, m metav1.ListMeta) error {
	switch e.Media {
	case Protobuf:
		return e.writeProtobufList(w, items, m)
	case YAML:
		return e.writeYAMLList(w, items, m)
	default:
		return e.writeJSONList(w, items, m)
	}
}

// listKind returns the kind of lists.
func (e Encoding) listKind() schema.GroupVersionKind {
	if e.Partial {
		return metav1.SchemeGroupVersion.WithKind("PartialObjectMetadataList")
	}
	return e.Resource.GroupVersion().WithKind(e.Resource.Kind + "List")
}

// item returns an item as it is in a list: those of built-in types have no kind.
func (e Encoding) item(o runtime.Object) (runtime.Object, error) {
	if encoded, ok := o.(Encoded); ok {
		opened, err := e.open(encoded)
		if err != nil {
			return nil, err
		}
		o = opened
	}
	if e.Partial || !e.Resource.BuiltIn {
		return e.Object(o), nil
	}
	return o, nil
}

func (e Encoding) writeJSONList(w io.Writer, items []runtime.Object, m metav1.ListMeta) error {
	kind := e.listKind()
	metadata, err := e.jsonListMeta(m)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, `{"kind":%q,"apiVersion":%q,"metadata":%s,"items":`,
		kind.Kind, kind.GroupVersion(), metadata)
	if err != nil {
		return err
	}
	if e.Partial && len(items) == 0 { // as an API server has it
		_, err = io.WriteString(w, "null}\n")
		return err
	}
	if _, err := io.WriteString(w, "["); err != nil {
		return err
	}
	for i, o := range items {
		if i > 0 {
			if _, err := io.WriteString(w, ","); err != nil {
				return err
			}
		}
		data, err := e.jsonItem(o)
		if err != nil {
			return err
		}
		if _, err := w.Write(data); err != nil {
			return err
		}
	}
	_, err = io.WriteString(w, "]}\n")
	return err
}

// jsonListMeta returns the metadata of a list. That of custom resources always has a continue
// token, which may be empty.
func (e Encoding) jsonListMeta(m metav1.ListMeta) ([]byte, error) {
	if e.Partial || e.Resource.BuiltIn {
		return json.Marshal(m)
	}
	return json.Marshal(struct {
		Continue           string `json:"continue"`
		RemainingItemCount *int64 `json:"remainingItemCount,omitempty"`
		ResourceVersion    string `json:"resourceVersion"`
	}{m.Continue, m.RemainingItemCount, m.ResourceVersion})
}

func (e Encoding) jsonItem(o runtime.Object) ([]byte, error) {
	if encoded, ok := o.(Encoded); ok && !e.Partial {
		if data, isProtobuf := encoded.Encoding(); !isProtobuf {
			return data, nil
		}
	}
	item, err := e.item(o)
	if err != nil {
		return nil, err
	}
	return json.Marshal(item)
}

// writeYAMLList is for the few clients that want one: it holds the whole list in memory.
func (e Encoding) writeYAMLList(w io.Writer, items []runtime.Object, m metav1.ListMeta) error {
	kind := e.listKind()
	list := struct {
		metav1.TypeMeta `json:",inline"`
		Metadata        metav1.ListMeta  `json:"metadata"`
		Items           []runtime.Object `json:"items"`
	}{Metadata: m}
	if !e.Partial { // of metadata, no items are null, as an API server has it
		list.Items = make([]runtime.Object, 0, len(items))
	}
	list.APIVersion, list.Kind = kind.ToAPIVersionAndKind()
	for _, o := range items {
		item, err := e.item(o)
		if err != nil {
			return err
		}
		list.Items = append(list.Items, item)
	}
	data, err := yaml.Marshal(list)
	if err == nil {
		_, err = w.Write(data)
	}
	return err
}

// The fields of a list, of its envelope, and of the type in that. All lists have the same two fields.
const (
	listMetadataField = 1
	listItemsField    = 2

	envelopeTypeField = 1
	envelopeRawField  = 2

	bytesType = 2 // the wire type of fields that begin with their length
)

// envelopeMagic precedes an object in protobuf.
const envelopeMagic = "k8s\x00"

// envelopeTail is what servers write after the object: an empty content encoding and an empty content type.
const envelopeTail = "\x1a\x00\x22\x00"

// appendEnvelopeHead appends what precedes an object of size bytes.
func appendEnvelopeHead(dst []byte, apiVersion, kind string, size int) []byte {
	t := runtime.TypeMeta{APIVersion: apiVersion, Kind: kind}
	dst = append(dst, envelopeMagic...)
	data, _ := t.Marshal() // cannot fail for two strings
	dst = append(appendHead(dst, envelopeTypeField, len(data)), data...)
	return appendHead(dst, envelopeRawField, size)
}

// appendEnvelope appends an object in its envelope.
func appendEnvelope(dst []byte, apiVersion, kind string, raw []byte) []byte {
	dst = append(appendEnvelopeHead(dst, apiVersion, kind, len(raw)), raw...)
	return append(dst, envelopeTail...)
}

// appendHead appends the number and length of a field.
func appendHead(dst []byte, field, size int) []byte {
	return binary.AppendUvarint(append(dst, byte(field<<3|bytesType)), uint64(size))
}

func headSize(size int) int {
	return len(appendHead(make([]byte, 0, binary.MaxVarintLen64+1), 0, size))
}

func (e Encoding) writeProtobufList(w io.Writer, items []runtime.Object, m metav1.ListMeta) error {
	metadata, err := m.Marshal()
	if err != nil {
		return err
	}
	size := headSize(len(metadata)) + len(metadata)
	encoded := make([][]byte, len(items)) // nil for those whose bytes are made when they are written
	for i, o := range items {
		n, later := e.sizeOfLater(o)
		if !later {
			if encoded[i], err = e.protobufItem(o); err != nil {
				return err
			}
			n = len(encoded[i])
		}
		size += headSize(n) + n
	}
	apiVersion, kind := e.listKind().ToAPIVersionAndKind()
	head := appendEnvelopeHead(nil, apiVersion, kind, size)
	head = append(appendHead(head, listMetadataField, len(metadata)), metadata...)
	for i, data := range encoded {
		if _, later := e.sizeOfLater(items[i]); later {
			if data, err = e.protobufItem(items[i]); err != nil {
				return err
			}
		}
		if _, err := w.Write(appendHead(head, listItemsField, len(data))); err != nil {
			return err
		}
		if _, err := w.Write(data); err != nil {
			return err
		}
		head = head[:0]
	}
	_, err = w.Write(append(head, envelopeTail...))
	return err
}

// sizeOfLater returns the size of an item whose bytes need not be made before they are written.
func (e Encoding) sizeOfLater(o runtime.Object) (size int, ok bool) {
	sized, ok := o.(Sized)
	if !ok || e.Partial || !e.Resource.BuiltIn {
		return 0, false
	}
	return sized.EncodedSize(), true
}

// protobufItem returns an item without an envelope.
func (e Encoding) protobufItem(o runtime.Object) ([]byte, error) {
	if encoded, ok := o.(Encoded); ok && !e.Partial {
		if data, isProtobuf := encoded.Encoding(); isProtobuf {
			return data, nil
		}
	}
	item, err := e.item(o)
	if err != nil {
		return nil, err
	}
	m, ok := item.(interface{ Marshal() ([]byte, error) })
	if !ok {
		return nil, runtime.NewNotRegisteredErrForTarget(scheme.Scheme.Name(), nil, e.Resource.GroupVersion())
	}
	return m.Marshal()
}
