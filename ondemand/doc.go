// Package ondemand reads the bodies of objects when somebody asks for them. Of all others, only the metadata is in
// memory, kept current by a list and a watch of metadata. It is for kinds of which a program uses few objects, such as
// Secrets and ConfigMaps. While reading one by one would take more than a list and watch of all bodies, these are held,
// unless Options.NeverHoldAll says otherwise.
//
//	secrets, err := ondemand.New[*corev1.Secret](factory, tidings.Scope{}, ondemand.Options{})
//	…
//	secret, err := secrets.Get(ctx, key)
//
// It replaces a metadata informer plus a client without a cache: each version of a body is requested once, and a body is
// never older than the metadata that the caller could see before. See docs/on-demand.md.
package ondemand
