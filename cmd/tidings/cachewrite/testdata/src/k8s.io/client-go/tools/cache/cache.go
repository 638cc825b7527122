// Package cache has the shape of the real one.
package cache

type Store interface {
	Add(obj any) error
	List() []any
	Get(obj any) (item any, exists bool, err error)
	GetByKey(key string) (item any, exists bool, err error)
}

type IndexFunc func(obj any) ([]string, error)

type Indexers map[string]IndexFunc

type Indexer interface {
	Store
	ByIndex(index, value string) ([]any, error)
	AddIndexers(Indexers) error
}

type DeletedFinalStateUnknown struct {
	Key string
	Obj any
}

type ResourceEventHandler interface {
	OnAdd(obj any, initial bool)
	OnUpdate(old, new any)
	OnDelete(obj any)
}

type ResourceEventHandlerFuncs struct {
	AddFunc    func(obj any)
	UpdateFunc func(old, new any)
	DeleteFunc func(obj any)
}

func (ResourceEventHandlerFuncs) OnAdd(obj any, initial bool) {}
func (ResourceEventHandlerFuncs) OnUpdate(old, new any)       {}
func (ResourceEventHandlerFuncs) OnDelete(obj any)            {}

type SharedIndexInformer interface {
	AddEventHandler(ResourceEventHandler)
	GetIndexer() Indexer
	SetTransform(func(any) (any, error)) error
}
