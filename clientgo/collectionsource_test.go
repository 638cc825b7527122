package clientgo

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/tidings/tidings"
	"github.com/tidings/tidings/internal/intake"
	"github.com/tidings/tidings/source"
)

// TestWhoDecodesACollection: the holder, within the client's rate limit, unless the kinds of objects have to be
// cleared.
func TestWhoDecodesACollection(t *testing.T) {
	client, err := source.NewClient(&rest.Config{Host: "http://server.test"})
	if err != nil {
		t.Fatal(err)
	}
	scope := source.Scope{Resource: corev1.SchemeGroupVersion.WithResource("pods")}
	for _, example := range []tidings.Object{&corev1.Pod{}, &metav1.PartialObjectMetadata{}} {
		from, err := source.NewHTTPLike(client, scope, example)
		if err != nil {
			t.Fatal(err)
		}
		src := newCollectionSource(from, nil)
		internals, ok := intake.InternalsOf(src).(collectionInternals)
		if !ok {
			t.Fatalf("the internals are %T", intake.InternalsOf(src))
		}
		_, typed := example.(*corev1.Pod)
		if self := internals.Self(); (self == any(src)) != typed {
			t.Errorf("%T: decoded by %T", example, self)
		}
	}
}
