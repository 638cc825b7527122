package tidingstest

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"maps"
	"mime"
	"net/http"
	"reflect"
	"strings"

	"github.com/tidings/tidings/object"
	"github.com/tidings/tidings/tidingstest/internal/api"
	"github.com/tidings/tidings/tidingstest/internal/rest"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"
)

const (
	jsonType     = "application/json"
	yamlType     = "application/yaml"
	protobufType = "application/vnd.kubernetes.protobuf"

	mediaTypes = "application/json, application/yaml, application/vnd.kubernetes.protobuf"
)

// encoder encodes objects as one client requested. The zero value writes JSON.
type encoder struct {
	media         string // "" is JSON
	partial       bool   // as PartialObjectMetadata
	requestedKind string // the requested kind in place of the object's, such as PartialObjectMetadataList
	resource      *api.Resource
}

// negotiate picks the first media type of an Accept header that the server can write. It cannot write custom resources in
// protobuf, streams in YAML, or anything as a Table or in CBOR.
func negotiate(accept string, r *api.Resource, stream bool) (encoder, error) {
	e := encoder{resource: r}
	if accept == "" {
		return e, nil
	}
	for clause := range strings.SplitSeq(accept, ",") {
		media, params, err := mime.ParseMediaType(clause)
		if err != nil {
			continue
		}
		e.requestedKind = params["as"]
		e.partial = strings.HasPrefix(e.requestedKind, "PartialObjectMetadata")
		if params["as"] != "" && (!e.partial || params["g"] != metav1.GroupName || params["v"] != "v1") {
			continue
		}
		switch media {
		case jsonType, "*/*", "application/*":
			e.media = ""
			return e, nil
		case yamlType:
			e.media = yamlType
			if !stream {
				return e, nil
			}
		case protobufType:
			e.media = protobufType
			if r == nil || r.BuiltIn || e.partial {
				return e, nil
			}
		}
	}
	return encoder{media: e.media}, notAcceptable(r == nil || r.BuiltIn)
}

// notAcceptable returns the error for a client that accepts nothing that the server can write. A real server handles
// built-in and custom resources with different libraries, which have different messages.
func notAcceptable(builtIn bool) error {
	status := metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusNotAcceptable, Reason: metav1.StatusReasonNotAcceptable,
		Message: "only the following media types are accepted: " + mediaTypes,
	}
	if builtIn {
		status.Message = "406: Not Acceptable\n\nAvailable representations: " + mediaTypes
		status.Details = &metav1.StatusDetails{}
	}
	return &apierrors.StatusError{ErrStatus: status}
}

func (e encoder) contentType(isWatch bool) string {
	switch {
	case e.media == protobufType && isWatch:
		return protobufType + ";stream=watch"
	case e.media != "":
		return e.media
	default:
		return jsonType
	}
}

// object returns o in the form and with the kind that the client should see. It does not change o.
func (e encoder) object(o runtime.Object) runtime.Object {
	m, ok := o.(object.Object)
	if !ok || e.resource == nil {
		return o
	}
	if e.partial {
		partial := meta.AsPartialObjectMetadata(m)
		partial.SetGroupVersionKind(metav1.SchemeGroupVersion.WithKind("PartialObjectMetadata"))
		return partial
	}
	kind := o.GetObjectKind().GroupVersionKind()
	if _, custom := o.(*unstructured.Unstructured); custom && kind == e.resource.StorageKind() {
		kind = e.resource.GroupVersionKind()
	} else if kind.Empty() {
		if kinds, _, err := scheme.Scheme.ObjectKinds(o); err == nil {
			kind = kinds[0]
		}
	}
	if kind == o.GetObjectKind().GroupVersionKind() {
		return o
	}
	o = shallowCopy(m)
	o.GetObjectKind().SetGroupVersionKind(kind)
	return o
}

// shallowCopy returns a copy whose kind can be set without changing that of o.
func shallowCopy(o object.Object) runtime.Object {
	if u, ok := o.(*unstructured.Unstructured); ok {
		return &unstructured.Unstructured{Object: maps.Clone(u.Object)}
	}
	c := reflect.New(reflect.TypeOf(o).Elem())
	c.Elem().Set(reflect.ValueOf(o).Elem())
	return c.Interface().(runtime.Object)
}

// list returns the list object. Items of built-in types have no kind, as on a real server.
func (e encoder) list(items []runtime.Object, version, token string, remaining *int64) (runtime.Object, error) {
	list, err := e.emptyList()
	if err != nil {
		return nil, err
	}
	for i, item := range items {
		if e.partial || !e.resource.BuiltIn {
			items[i] = e.object(item)
		}
	}
	if err := meta.SetList(list, items); err != nil {
		return nil, err
	}
	accessor, err := meta.ListAccessor(list)
	if err != nil {
		return nil, err
	}
	accessor.SetResourceVersion(version)
	accessor.SetContinue(token)
	accessor.SetRemainingItemCount(remaining)
	return list, nil
}

func (e encoder) emptyList() (list runtime.Object, err error) {
	kind := e.resource.GroupVersion().WithKind(e.resource.Kind + "List")
	switch {
	case e.partial:
		list, kind = &metav1.PartialObjectMetadataList{}, metav1.SchemeGroupVersion.WithKind("PartialObjectMetadataList")
	case e.resource.BuiltIn:
		list, err = scheme.Scheme.New(kind)
	default:
		list = &unstructured.UnstructuredList{Object: map[string]any{}}
	}
	if err == nil {
		list.GetObjectKind().SetGroupVersionKind(kind)
	}
	return list, err
}

// encode encodes one object.
func (e encoder) encode(o runtime.Object) ([]byte, error) {
	switch e.media {
	case protobufType:
		var b bytes.Buffer
		err := protobuf.NewSerializer(scheme.Scheme, scheme.Scheme).Encode(o, &b)
		return b.Bytes(), err
	case yamlType:
		return yaml.Marshal(o)
	default:
		return json.Marshal(o)
	}
}

// event encodes one watch event with its framing.
func (e encoder) event(t watch.EventType, o runtime.Object) ([]byte, error) {
	data, err := e.encode(e.object(o))
	if err != nil {
		return nil, err
	}
	event := &metav1.WatchEvent{Type: string(t), Object: runtime.RawExtension{Raw: data}}
	if e.media != protobufType {
		data, err = json.Marshal(event)
		return append(data, '\n'), err
	}
	data, err = event.Marshal()
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(data))), data...), err
}

// bookmark returns the object of a BOOKMARK event.
func (e encoder) bookmark(version string, initialEventsEnd bool) (runtime.Object, error) {
	o := rest.NewObject(e.resource)
	o.GetObjectKind().SetGroupVersionKind(e.resource.GroupVersionKind())
	m, ok := o.(metav1.Object)
	if !ok {
		return nil, fmt.Errorf("%v has no metadata", e.resource.Kind)
	}
	m.SetResourceVersion(version)
	if initialEventsEnd {
		m.SetAnnotations(map[string]string{metav1.InitialEventsAnnotationKey: "true"})
	}
	return o, nil
}
