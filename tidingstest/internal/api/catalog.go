package api

import (
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Catalog holds the resources that a server currently serves. Its methods may be called from any goroutine.
type Catalog struct {
	mu        sync.RWMutex
	resources map[schema.GroupVersionResource]*Resource
	kinds     map[schema.GroupVersionKind]*Resource
}

// NewCatalog returns a catalog with the built-in resources and others.
func NewCatalog(others ...*Resource) *Catalog {
	c := &Catalog{
		resources: make(map[schema.GroupVersionResource]*Resource),
		kinds:     make(map[schema.GroupVersionKind]*Resource),
	}
	for _, r := range BuiltIn() {
		c.Add(r)
	}
	for _, r := range others {
		c.Add(r)
	}
	return c
}

// Add adds a resource, replacing any of the same name.
func (c *Catalog) Add(r *Resource) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.resources[r.GroupVersionResource] = r
	c.kinds[r.GroupVersionKind()] = r
}

// Remove removes a resource and reports whether it was in the catalog.
func (c *Catalog) Remove(resource schema.GroupVersionResource) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := c.resources[resource]
	if r == nil {
		return false
	}
	delete(c.resources, resource)
	delete(c.kinds, r.GroupVersionKind())
	return true
}

// Get returns a resource, or nil.
func (c *Catalog) Get(resource schema.GroupVersionResource) *Resource {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.resources[resource]
}

// HasGroup reports whether a group has any resources.
func (c *Catalog) HasGroup(group string) bool {
	c.mu.RLock()
	defer c.mu.RUnlock()
	for resource := range c.resources {
		if resource.Group == group {
			return true
		}
	}
	return false
}

// OfKind returns the resource of a kind, or nil.
func (c *Catalog) OfKind(kind schema.GroupVersionKind) *Resource {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.kinds[kind]
}

// All returns all resources, sorted by name.
func (c *Catalog) All() []*Resource {
	c.mu.RLock()
	defer c.mu.RUnlock()
	all := make([]*Resource, 0, len(c.resources))
	for _, r := range c.resources {
		all = append(all, r)
	}
	slices.SortFunc(all, func(a, b *Resource) int { return strings.Compare(a.String(), b.String()) })
	return all
}
