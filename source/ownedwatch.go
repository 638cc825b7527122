package source

import (
	"reflect"

	"k8s.io/apimachinery/pkg/watch"
	restwatch "k8s.io/client-go/rest/watch"
)

// decodesForReader reports whether a watch decodes its events for its reader alone, so that nobody
// else has the objects. It is known of the watches of client-go's REST clients, and not of fakes,
// which send the objects that they store. The type of a watch's decoder is read from its field.
func decodesForReader(w watch.Interface) bool {
	stream, ok := w.(*watch.StreamWatcher)
	if !ok || stream == nil {
		return false
	}
	decoder := reflect.ValueOf(stream).Elem().FieldByName("source")
	if !decoder.IsValid() || decoder.Kind() != reflect.Interface || decoder.IsNil() {
		return false // another version of apimachinery
	}
	return decoder.Elem().Type() == reflect.TypeFor[*restwatch.Decoder]()
}
