package tidingstest

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"mime"
	"strings"

	"github.com/tidings/tidings/object"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/scheme"
)

const (
	jsonType     = "application/json"
	protobufType = "application/vnd.kubernetes.protobuf"
)

// encoder writes objects the way one client asked for.
type encoder struct {
	protobuf bool
	partial  bool // as PartialObjectMetadata
	kind     schema.GroupVersionKind
	builtIn  bool
}

// negotiate picks the first media type of an Accept header that the server can write.
func negotiate(accept string, v view) (encoder, error) {
	e := encoder{kind: v.kind, builtIn: v.collection.builtIn}
	if accept == "" {
		return e, nil
	}
	for clause := range strings.SplitSeq(accept, ",") {
		media, params, err := mime.ParseMediaType(clause)
		if err != nil {
			continue
		}
		e.partial = strings.HasPrefix(params["as"], "PartialObjectMetadata")
		if params["as"] != "" && (!e.partial || params["g"] != metav1.GroupName || params["v"] != "v1") {
			continue
		}
		e.protobuf = media == protobufType
		if e.protobuf && (e.builtIn || e.partial) || media == jsonType || media == "*/*" || media == "application/*" {
			return e, nil
		}
	}
	return encoder{}, &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: 406, Reason: metav1.StatusReasonNotAcceptable,
		Message: "only the following media types are accepted: application/json, application/vnd.kubernetes.protobuf",
	}}
}

func (e encoder) contentType(isWatch bool) string {
	switch {
	case e.protobuf && isWatch:
		return protobufType + ";stream=watch"
	case e.protobuf:
		return protobufType
	default:
		return jsonType
	}
}

// object gives o the type and the kind that the client is to see. It does not change o.
func (e encoder) object(o runtime.Object) runtime.Object {
	switch o := o.(type) {
	case *metav1.Status:
		return o
	case object.Object:
		if e.partial {
			partial := meta.AsPartialObjectMetadata(o)
			partial.SetGroupVersionKind(metav1.SchemeGroupVersion.WithKind("PartialObjectMetadata"))
			return partial
		}
		if kinds, _, err := scheme.Scheme.ObjectKinds(o); err == nil && o.GetObjectKind().GroupVersionKind().Empty() {
			o = copyOf(o)
			o.GetObjectKind().SetGroupVersionKind(kinds[0])
		}
		return o
	default:
		return o
	}
}

// list builds the list object. Items of built-in types carry no kind, as in a real server's answer.
func (e encoder) list(items []runtime.Object, version, token string, remaining int) (runtime.Object, error) {
	var list runtime.Object
	listKind := e.kind.GroupVersion().WithKind(e.kind.Kind + "List")
	switch {
	case e.partial:
		list, listKind = &metav1.PartialObjectMetadataList{}, metav1.SchemeGroupVersion.WithKind("PartialObjectMetadataList")
		for i, item := range items {
			items[i] = e.object(item)
		}
	case e.builtIn:
		var err error
		if list, err = scheme.Scheme.New(listKind); err != nil {
			return nil, err
		}
	default:
		list = &unstructured.UnstructuredList{Object: map[string]any{}}
	}
	if err := meta.SetList(list, items); err != nil {
		return nil, err
	}
	list.GetObjectKind().SetGroupVersionKind(listKind)
	accessor, err := meta.ListAccessor(list)
	if err != nil {
		return nil, err
	}
	accessor.SetResourceVersion(version)
	accessor.SetContinue(token)
	if remaining > 0 {
		n := int64(remaining)
		accessor.SetRemainingItemCount(&n)
	}
	return list, nil
}

// encode writes one object.
func (e encoder) encode(o runtime.Object) ([]byte, error) {
	if !e.protobuf {
		return json.Marshal(o)
	}
	var b bytes.Buffer
	err := protobuf.NewSerializer(scheme.Scheme, scheme.Scheme).Encode(o, &b)
	return b.Bytes(), err
}

// event writes one watch event in its frame.
func (e encoder) event(t watch.EventType, o runtime.Object) ([]byte, error) {
	data, err := e.encode(e.object(o))
	if err != nil {
		return nil, err
	}
	event := &metav1.WatchEvent{Type: string(t), Object: runtime.RawExtension{Raw: data}}
	if !e.protobuf {
		data, err = json.Marshal(event)
		return append(data, '\n'), err
	}
	data, err = event.Marshal()
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(data))), data...), err
}

// bookmark builds the object of a BOOKMARK event.
func (e encoder) bookmark(version string, initialEventsEnd bool) (runtime.Object, error) {
	var o runtime.Object = &unstructured.Unstructured{Object: map[string]any{}}
	if e.builtIn {
		var err error
		if o, err = scheme.Scheme.New(e.kind); err != nil {
			return nil, err
		}
	}
	o.GetObjectKind().SetGroupVersionKind(e.kind)
	m, ok := o.(metav1.Object)
	if !ok {
		return nil, fmt.Errorf("%v has no metadata", e.kind)
	}
	m.SetResourceVersion(version)
	if initialEventsEnd {
		m.SetAnnotations(map[string]string{metav1.InitialEventsAnnotationKey: "true"})
	}
	return o, nil
}
