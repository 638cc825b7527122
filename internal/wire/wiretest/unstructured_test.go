package wiretest

import (
	"encoding/json"
	"reflect"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func TestCustomResources(t *testing.T) {
	docs := CustomResources(100, 1)
	if !reflect.DeepEqual(docs, CustomResources(100, 1)) {
		t.Error("equal seeds give different resources")
	}
	if reflect.DeepEqual(docs, CustomResources(100, 2)) {
		t.Error("different seeds give equal resources")
	}
	names := map[string]bool{}
	for _, data := range docs {
		var object unstructured.Unstructured
		if err := json.Unmarshal(data, &object.Object); err != nil {
			t.Fatal(err)
		}
		if object.GetKind() != "Database" || object.GetUID() == "" || len(object.GetManagedFields()) != 2 {
			t.Fatalf("%s is not a proper object", data)
		}
		names[object.GetNamespace()+"/"+object.GetName()] = true
	}
	if len(names) != len(docs) {
		t.Errorf("%d objects have only %d names", len(docs), len(names))
	}
}
