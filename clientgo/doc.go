// Package clientgo is client-go's informer API over Tidings' engine. A program that is written against client-go changes import paths: the
// packages below this one (cache, informers, workqueue, dynamicinformer, metadatainformer) have every exported name of those that they stand in for. This
// package has what they are made of, and factories for a rest.Config:
//
//	factory := clientgo.NewSharedInformerFactory(config, 10*time.Minute)
//
// The result is a client-go informers.SharedInformerFactory. Its accessors, informers, indexers and listers have client-go's types
// and keep client-go's documented contract. What is different, or cannot be had, is said where it is declared and
// in docs/migrating.md.
//
// # How it is made
//
// The type of an informer's objects is known at run time only, from the object that a generated accessor passes to
// InformerFor. A generated table (types.go) has one row for each resource that client-go's factory knows, and a row holds the
// source of its type, so objects are decoded as with Tidings' own API. Everything behind the source is instantiated once, for
// tidings.Object.
//
// Native returns the Tidings factory behind a client-go one, for its status and metrics.
package clientgo

//go:generate go run gen_types.go
