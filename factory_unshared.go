package tidings

import "reflect"

// UnsharedOptions are the options of an informer that a factory does not share.
type UnsharedOptions[T Object] struct {
	// Name identifies the collection in messages. Empty means the resource and its selectors.
	Name string
	// Source makes the informer's sources. Nil means those that Informer would use.
	Source SourceFunc[T]
	// OnError is called for the informer's errors, in the same way as Options.OnError and after it.
	OnError func(error)
}

// UnsharedInformer is like Informer, including the factory's memory budget and directory, but
// returns a new informer on every call. Informers that exist at the same time must differ in scope
// or type if they are saved.
func UnsharedInformer[T Object](f *Factory, scope Scope, opts UnsharedOptions[T]) (*SharedInformer[T], error) {
	target, err := scopeOf[T](f, scope)
	if err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.checkNotStopped(target); err != nil {
		return nil, err
	}
	key := informerKey{goType: reflect.TypeFor[T](), target: target.id()}
	if opts.Source == nil {
		opts.Source, _ = f.sources[key.goType].(SourceFunc[T])
	}
	shared, err := newShared(f, key, target, opts)
	if err != nil {
		return nil, err
	}
	return newReference[T](f, shared), nil
}

// callBoth returns a function that calls first and second, either of which may be nil.
func callBoth(first, second func(error)) func(error) {
	switch {
	case first == nil:
		return second
	case second == nil:
		return first
	}
	return func(err error) {
		defer second(err) // even if first panics
		first(err)
	}
}
