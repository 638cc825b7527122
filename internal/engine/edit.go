package engine

import "github.com/tidings/tidings/internal/store"

// Edit changes the store without notifying the handlers.
func (inf *Informer[T]) Edit(change func(*store.Txn[T])) {
	defer inf.keepBudget()
	defer inf.guard.sampler.Forget()
	inf.apply.Lock()
	defer inf.unlockApply()
	txn := inf.writer.Begin()
	defer txn.Abort()
	inf.edited.Store(true)
	change(txn)
	txn.Commit()
}
