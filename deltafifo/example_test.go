package deltafifo_test

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tidings/tidings/deltafifo"
	"github.com/tidings/tidings/object"
	"github.com/tidings/tidings/store"
)

type thing = metav1.PartialObjectMetadata

func newThing(name, uid, version string) *thing {
	return &thing{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(uid), ResourceVersion: version}}
}

func delta(t object.DeltaType, o *thing) object.Delta[*thing] {
	return object.Delta[*thing]{Type: t, Key: object.KeyOf(o), Object: o}
}

// A program can put a queue between a reflector, whose sink it is, and a store.
func Example() {
	queue := deltafifo.New[*thing](deltafifo.Options{})
	// reflector.Options{Sink: queue, ...} would make these calls.
	queue.Replace(object.Items[*thing]{newThing("web", "u1", "7"), newThing("db", "u2", "9")}, "10")
	queue.Add([]object.Delta[*thing]{delta(object.Updated, newThing("web", "u1", "11")), delta(object.Deleted, newThing("db", "u2", "12"))}, "12")
	queue.Add(nil, "15") // a bookmark

	writer := store.NewWriter[*thing](store.Options{})
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	for {
		batch, err := queue.Pop(ctx)
		if err != nil {
			fmt.Println(err)
			return
		}
		snapshot := apply(writer, batch)
		fmt.Println(snapshot.Len(), "objects at version", snapshot.ResourceVersion())
		if snapshot.ResourceVersion() == "15" {
			cancel()
		}
	}
	// Output:
	// Added db
	// Added web
	// 2 objects at version 10
	// Updated web
	// Deleted db
	// 1 objects at version 15
	// context canceled
}

// apply applies a batch in a transaction of the store.
func apply(writer *store.Writer[*thing], batch deltafifo.Batch[*thing]) store.Snapshot[*thing] {
	txn := writer.Begin()
	if batch.Type == deltafifo.Replace {
		// A list that is older than the known state means that the server was restored from a backup.
		rewritten := object.OlderResourceVersion(batch.ResourceVersion, writer.Store().Snapshot().ResourceVersion())
		for _, d := range txn.Replace("", batch.Objects, batch.ResourceVersion, rewritten) {
			fmt.Println(d.Type, d.Key)
		}
	}
	for _, d := range batch.Deltas {
		fmt.Println(d.Type, d.Key)
		if d.Type == object.Deleted {
			txn.Delete(d.Key)
		} else {
			txn.Set(d.Key, d.Object)
		}
	}
	txn.Advance("", batch.ResourceVersion)
	return txn.Commit()
}

// A handler that is behind sees only the latest state, and sees an object that was replaced by
// another one with the same name.
func ExampleQueue() {
	v1, v2, v3, other := newThing("web", "u1", "1"), newThing("web", "u1", "2"), newThing("web", "u1", "3"), newThing("web", "u2", "5")
	queue := deltafifo.New[*thing](deltafifo.Options{Policy: deltafifo.Coalesce})
	queue.Sync(object.Items[*thing]{v1}, true) // the initial list
	queue.Mark()
	update := delta(object.Updated, v2)
	update.Old = v1
	queue.Add([]object.Delta[*thing]{update}, "2")
	queue.Add([]object.Delta[*thing]{delta(object.Deleted, v3), delta(object.Added, other)}, "5")
	queue.Add(nil, "6")

	for queue.Stats().Pending > 0 {
		batch, _ := queue.Pop(context.Background())
		if batch.Type == deltafifo.Synced {
			fmt.Println("that was the initial list")
		}
		for d := range batch.All() {
			fmt.Println(d.Type, d.Key, d.Object.UID, d.Object.ResourceVersion)
			queue.Done(1)
		}
	}
	// Output:
	// Added web u1 1
	// that was the initial list
	// Deleted web u1 3
	// Added web u2 5
}
