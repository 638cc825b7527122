package controller

import (
	"context"
	"net/url"
	"strings"
	"time"

	"github.com/tidings/tidings/object"
)

// A program may write to several clusters. What it writes to one of them is not expected of the caches of another, whose
// versions have nothing to do with it. If a cache follows the server at the address that the write went to, it is of the
// same cluster. Otherwise, as when one of the two is reached through a replica, a few of the cache's objects are looked up
// there: it is the same cluster if one of them has the same uid.

// relation is what is known of a cache and the server at another address than its own.
type relation struct {
	cluster cluster
	until   time.Time // it may be compared again
}

type cluster uint8

const (
	sameCluster cluster = iota
	otherCluster
	unknownCluster
)

// foreignCache is a cache and the address of another server than its own.
type foreignCache struct {
	cache                cacheView
	scheme, host, prefix string
}

const (
	// comparedObjects is how many objects are looked up to compare clusters, and comparisonLasts is how long the result
	// counts. One that could not be found out, since the cache is empty or the server does not answer, counts only until the
	// next look-up: the cache may be about to get objects.
	comparedObjects = 3
	comparisonLasts = 10 * time.Minute
)

// isServerOf reports whether the cache follows the server at the origin's address, as far as is known.
func (o *origin) isServerOf(cache cacheView) bool {
	server := cache.server()
	return server == nil || server.Host == o.host && server.Scheme == o.scheme && trimSlash(server) == strings.TrimSuffix(o.request.Prefix, "/")
}

// sameServer reports whether both writes went to the server at the same address. What was reported by hand has no address.
func (o *origin) sameServer(other *origin) bool {
	if o == nil || other == nil {
		return o == other
	}
	return o.scheme == other.scheme && o.host == other.host && o.request.Prefix == other.request.Prefix
}

func trimSlash(u *url.URL) string { return strings.TrimSuffix(u.Path, "/") }

// relationOf returns whether the write was made in the cluster of the cache. The caller holds mu.
func (g *gate[K]) relationOf(e *expectation, cache cacheView) cluster {
	if e.from == nil || e.from.isServerOf(cache) {
		return sameCluster
	}
	r := g.foreign[e.from.foreign(cache)]
	if r == nil || r.until.Before(time.Now()) {
		return unknownCluster
	}
	return r.cluster
}

func (o *origin) foreign(cache cacheView) foreignCache {
	return foreignCache{cache, o.scheme, o.host, o.request.Prefix}
}

// foreignCacheOf returns a cache of which is not known whether the write was made in its cluster; nil if there is none. The
// caller holds mu.
func (g *gate[K]) foreignCacheOf(e *expectation, caches []cacheView) cacheView {
	for _, cache := range caches {
		if e.in == nil && cache.tracks(e.resource) && g.relationOf(e, cache) == unknownCluster {
			return cache
		}
	}
	return nil
}

// compareClusters finds out whether the origin's server is of the cache's cluster. If it cannot, that is assumed.
func (g *gate[K]) compareClusters(ctx context.Context, o *origin, cache cacheView) {
	found, lasts := o.compare(ctx, cache)
	g.mu.Lock()
	defer g.mu.Unlock()
	defer g.ended(o)
	if g.foreign == nil {
		g.foreign = make(map[foreignCache]*relation)
	}
	g.foreign[o.foreign(cache)] = &relation{found, time.Now().Add(lasts)}
}

// compare looks up some of the cache's objects, and returns how long the result counts.
func (o *origin) compare(ctx context.Context, cache cacheView) (found cluster, lasts time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, lookupTimeout)
	defer cancel()
	compared := 0
	for held := range cache.held("") {
		key := object.KeyOf(held)
		var about finding
		a, err := o.ask(ctx, o.request.Path(key.Namespace, key.Name), nil, "PartialObjectMetadata", &about)
		switch {
		case err != nil:
			return sameCluster, lookupEvery
		case a.Object.UID == held.GetUID():
			return sameCluster, comparisonLasts
		}
		if compared++; compared == comparedObjects {
			break
		}
	}
	if compared == 0 {
		return sameCluster, lookupEvery
	}
	return otherCluster, comparisonLasts
}

// forget forgets what is known of a cache that has been removed.
func (g *gate[K]) forget(cache cacheView) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for f := range g.foreign {
		if f.cache == cache {
			delete(g.foreign, f)
		}
	}
}
