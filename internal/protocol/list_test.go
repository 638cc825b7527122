package protocol

import (
	"bytes"
	"reflect"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/tidings/tidings/object"
)

// TestListsEqualUpstreams encodes a list of every built-in kind item by item, and compares the
// bytes with what apimachinery's encoder makes of the list.
func TestListsEqualUpstreams(t *testing.T) {
	remaining, checked := int64(3), 0
	m := metav1.ListMeta{ResourceVersion: "7", Continue: "next", RemainingItemCount: &remaining}
	for kind := range scheme.Scheme.AllKnownTypes() {
		itemKind, isList := strings.CutSuffix(kind.Kind, "List")
		if !isList || !scheme.Scheme.Recognizes(kind.GroupVersion().WithKind(itemKind)) || kind.Version == runtime.APIVersionInternal {
			continue
		}
		r := &ResourceType{GroupVersionResource: kind.GroupVersion().WithResource("x"), Kind: itemKind, BuiltIn: true}
		var items []runtime.Object
		for _, name := range []string{"a", "b"} {
			o, err := scheme.Scheme.New(r.GroupVersionKind())
			item, ok := o.(object.Object)
			if err != nil || !ok {
				break // such as an APIGroup
			}
			item.SetName(name)
			items = append(items, item)
		}
		list, err := scheme.Scheme.New(kind)
		if err != nil || len(items) == 0 {
			continue
		}
		if err := meta.SetList(list, items); err != nil {
			t.Errorf("%v: %v", kind, err)
			continue
		}
		reflect.ValueOf(list).Elem().FieldByName("ListMeta").Set(reflect.ValueOf(m))
		list.GetObjectKind().SetGroupVersionKind(kind)
		var want, got bytes.Buffer
		if err := protobuf.NewSerializer(scheme.Scheme, scheme.Scheme).Encode(list, &want); err != nil {
			continue // it has no protobuf encoding
		}
		if err := (Encoding{Media: Protobuf, Resource: r}).WriteList(&got, items, m); err != nil || !bytes.Equal(got.Bytes(), want.Bytes()) {
			t.Errorf("%v: %v\n%q\n%q", kind, err, got.Bytes(), want.Bytes())
		}
		checked++
	}
	if checked < 100 {
		t.Errorf("only %d kinds of lists", checked)
	}
}
