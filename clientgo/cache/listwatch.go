package cache

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"

	"github.com/tidings/tidings/clientgo"
)

// NewListWatchFromClient calls [clientgo.NewListWatchFromClient]: informers know what the ListWatch
// lists, and can read the server themselves.
func NewListWatchFromClient(c Getter, resource string, namespace string, fieldSelector fields.Selector) *ListWatch {
	return clientgo.NewListWatchFromClient(c, resource, namespace, fieldSelector)
}

// NewFilteredListWatchFromClient calls [clientgo.NewFilteredListWatchFromClient]: informers know
// what the ListWatch lists, and can read the server themselves.
func NewFilteredListWatchFromClient(c Getter, resource string, namespace string, optionsModifier func(options *metav1.ListOptions)) *ListWatch {
	return clientgo.NewFilteredListWatchFromClient(c, resource, namespace, optionsModifier)
}
