package deltafifo_test

import (
	"fmt"
	"iter"
	"maps"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tidings/tidings/deltafifo"
	"github.com/tidings/tidings/object"
)

type thing = metav1.PartialObjectMetadata

func newThing(name, uid, version string) *thing {
	return &thing{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(uid), ResourceVersion: version}}
}

// A relist comes out as the difference to what is known.
func ExampleQueue() {
	q := deltafifo.New[*thing](deltafifo.Options{})
	q.Replace(0, []*thing{newThing("new", "u2", "9"), newThing("stays", "u1", "5")}, "10")

	known := map[object.Key]*thing{{Name: "stays"}: newThing("stays", "u1", "5")}
	batch, _ := q.Pop(func(deltafifo.Part) iter.Seq2[object.Key, *thing] { return maps.All(known) })
	for _, d := range batch.Deltas {
		fmt.Println(d.Type, d.Key)
	}
	fmt.Println("current to", batch.ResourceVersion)
	// Output:
	// Added new
	// current to 10
}

// A subscriber who is late is told of the latest state only, and of an object that made room for another.
func ExamplePending() {
	v1, v2, other := newThing("web", "u1", "1"), newThing("web", "u1", "2"), newThing("web", "u2", "4")
	key := object.KeyOf(v1)
	var p deltafifo.Pending[*thing]
	now := time.Now()
	p.Push(object.Delta[*thing]{Type: object.Updated, Key: key, Old: v1, Object: v2}, now)
	p.Push(object.Delta[*thing]{Type: object.Deleted, Key: key, Object: v2}, now)
	p.Push(object.Delta[*thing]{Type: object.Added, Key: key, Object: other}, now)

	for _, d := range p.Take(nil, 0) {
		fmt.Println(d.Type, d.Key, d.Object.UID)
	}
	// Output:
	// Deleted web u1
	// Added web u2
}
