package json

import (
	"reflect"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/tidings/tidings/internal/wire"
	"github.com/tidings/tidings/internal/wire/wiretest"
)

// upstream decodes as client-go's dynamic client does.
func upstream(data []byte) (*unstructured.Unstructured, error) {
	object := &unstructured.Unstructured{}
	if _, _, err := unstructured.UnstructuredJSONScheme.Decode(data, nil, object); err != nil {
		return nil, err
	}
	return object, nil
}

func newDecoder(t testing.TB, opts wire.Options) *Unstructured {
	t.Helper()
	d, err := NewUnstructured(opts)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestCustomResourcesEqualUpstream(t *testing.T) {
	d := newDecoder(t, wire.Options{})
	for _, data := range wiretest.CustomResources(500, 1) {
		want, err := upstream(data)
		if err != nil {
			t.Fatal(err)
		}
		got, err := d.Decode(data)
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("got  %v\nwant %v", got, want)
		}
	}
	t.Logf("%+v", d.Stats())
}
