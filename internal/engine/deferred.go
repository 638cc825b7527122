package engine

import "sync"

// deferredCalls are calls to make once the apply lock is released: they run user code, which may do
// anything with the informer.
type deferredCalls struct {
	mu    sync.Mutex // held briefly; may be taken while any other lock is held
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

// afterApply makes a call without the apply lock: at once if it is free, else when its holder,
// which may be the caller, releases it. It is for what the store finds on any goroutine.
func (inf *Informer[T]) afterApply(call func()) {
	inf.deferredCalls.add(call)
	if inf.apply.TryLock() {
		inf.unlockApply()
	} // otherwise the holder makes the call after it has unlocked
}

// unlockApply releases the apply lock, and then makes the calls that must not be made under it,
// such as those of the user's logger.
func (inf *Informer[T]) unlockApply() {
	inf.apply.Unlock()
	for _, call := range inf.deferredCalls.take() {
		call()
	}
}
