package tidings

import "reflect"

// UnsharedOptions are the options of an informer that a factory shares with nobody.
type UnsharedOptions[T Object] struct {
	// Name stands for the collection in messages. Empty means the resource with what narrows it.
	Name string
	// Source makes the informer's sources. Nil means those that Informer would use.
	Source SourceFunc[T]
	// OnError is called for the informer's errors, after Options.OnError and like it.
	OnError func(error)
}

// UnsharedInformer returns an informer that belongs to the factory like those from Informer, keeps within its memory budget and saves to its
// directory, but is shared with nobody: asking again gives another one. Informers that are there at the same time need
// scopes or types that differ if they are saved.
func UnsharedInformer[T Object](f *Factory, scope Scope, opts UnsharedOptions[T]) (*SharedInformer[T], error) {
	target, err := scopeOf[T](f, scope)
	if err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.usable(target); err != nil {
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
	return newHold[T](f, shared), nil
}

// both returns a function that calls the two, of which either may be nil.
func both(first, second func(error)) func(error) {
	switch {
	case first == nil:
		return second
	case second == nil:
		return first
	}
	return func(err error) {
		first(err)
		second(err)
	}
}
