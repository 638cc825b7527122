package tidings

import (
	"github.com/tidings/tidings/internal/store"
	"github.com/tidings/tidings/object"
)

// Edit writes to the informer's store in one transaction, before or after the start: it removes the
// objects under the given keys, then puts in the given objects. Handlers are not notified. It is
// for tests that fill a store without a server, and for adapters to interfaces with a writable
// store. The next list and later events correct what differs from the server, as if the edited
// objects had come from it, and handlers are notified of these differences. An object with the
// server's uid and resource version is taken for the server's, whatever its contents. An edited
// informer is not saved any more (Options.Files.Dir).
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
