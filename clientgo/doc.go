// Package clientgo provides client-go's informer API on top of Tidings' engine. A program written
// against client-go changes import paths: the packages below this one (cache, informers, workqueue,
// dynamicinformer, metadatainformer) declare every exported name that the packages they replace
// have in client-go 0.36. This package has their implementation, and factories for a rest.Config:
//
//	factory := clientgo.NewSharedInformerFactory(config, 10*time.Minute)
//
// The result is a client-go informers.SharedInformerFactory. Its accessors, informers, indexers and
// listers have client-go's types and keep client-go's documented contract. Differences and
// unsupported features are documented at the declarations and in docs/migrating.md.
//
// # How it works
//
// The type of an informer's objects is only known at run time, from the object that a generated
// accessor passes to InformerFor. A generated table (types.go) has one row for each resource of
// client-go's factory. A row says which type to decode, so objects are decoded as they are with
// Tidings' own API. Everything else, the sources included, is instantiated once, for
// tidings.Object. Resources that not every supported version of client-go has are not in the table;
// see probing.go.
//
// Native returns the Tidings factory behind a client-go one, for its status and metrics.
package clientgo

//go:generate go run gen_types.go
//go:generate go run gen_groups.go
