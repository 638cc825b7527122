package engine

import "sync"

// deferredCalls are calls that wait until the apply lock is given up: they run the user's code, which may do anything with the informer.
type deferredCalls struct {
	mu    sync.Mutex // held for a moment; taken under any other lock
	calls []func()
}

func (d *deferredCalls) add(call func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.calls = append(d.calls, call)
}

func (d *deferredCalls) take() []func() {
	d.mu.Lock()
	defer d.mu.Unlock()
	calls := d.calls
	d.calls = nil
	return calls
}

// afterApply makes a call while nobody holds the apply lock: at once, or when whoever holds it, which may be the caller, gives it up. It is for what
// the store finds out on any goroutine.
func (inf *Informer[T]) afterApply(call func()) {
	inf.deferredCalls.add(call)
	if inf.apply.TryLock() {
		inf.unlockApply()
	} // else the holder makes the call: it looks for calls after it has unlocked
}

// unlockApply gives up the apply lock, and then makes the calls that must not be made under it.
func (inf *Informer[T]) unlockApply() {
	inf.apply.Unlock()
	for _, call := range inf.deferredCalls.take() {
		call()
	}
}
