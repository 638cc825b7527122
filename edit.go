package tidings

import (
	"github.com/tidings/tidings/object"
	"github.com/tidings/tidings/store"
)

// Edit writes to the informer's store, in one transaction, before or after the start: first it removes the objects under some keys, then it puts
// objects in. The handlers are not notified. It is for tests that fill a store without a server, and for adapters to interfaces in which a
// store can be written to. The next list and later events of the server correct what is wrong, as if the server had brought the objects
// before: handlers then hear of the differences. An object of the server's uid and resource version counts as the server's, whatever it says. What was
// written to is not saved any more (Options.Dir).
func (inf *SharedInformer[T]) Edit(remove []Key, put []T) {
	inf.core.Edit(func(txn *store.Txn[T]) {
		for _, key := range remove {
			txn.Remove(key)
		}
		for _, obj := range put {
			txn.Put(object.KeyOf(obj), obj)
		}
	})
}
