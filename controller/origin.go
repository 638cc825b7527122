package controller

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/tidings/tidings/internal/apiwrite"
	"github.com/tidings/tidings/object"
)

// origin is the request of a write: what is needed to look up its outcome. It holds neither body nor answer.
type origin struct {
	request   apiwrite.Request
	url       *url.URL
	header    http.Header // which authorizes a look-up as well
	transport http.RoundTripper
	// name is that of the written object; "" if it is not known, or if there are several.
	name string
	// next is when to look it up next, and undone how many look-ups in a row have shown that the write was undone.
	// The gate's lock guards both once a write of the origin is in the gate.
	next   time.Time
	undone int
}

const (
	// lookupTimeout limits a look-up, and lookupEvery is how often one is repeated while it fails.
	lookupTimeout = 5 * time.Second
	lookupEvery   = time.Second
	// lookupAfter is how long a cache may not have seen a write before the write is looked up although the server
	// has confirmed it: a restore of the server may have undone it, and then the cache will never see it.
	lookupAfter = 5 * time.Second
	// undoneTimes is how many look-ups in a row have to show that.
	undoneTimes = 3
	// maxLookup is how much of the answer to a look-up is read. An object is at most half as large.
	maxLookup = 3 << 20
)

// from makes a write of the origin one that can be looked up.
func (o *origin) from() *origin { return o }

// again returns the origin of what was found by a look-up.
func (o *origin) again() *origin {
	again := *o
	again.next, again.undone = time.Now().Add(lookupAfter), 0
	return &again
}

// state returns the state that the server has of the object, or of the collection, if that is older than the version
// or if the version is empty. Then a restore has undone the write. It returns nil if the object is gone: the cache
// will see that.
func (o *origin) state(ctx context.Context, version string) *note {
	a, err := o.ask(ctx, o.name)
	now := &note{origin: o.again()}
	switch {
	case err != nil || a.IsStatus:
		return nil
	case a.IsList:
		now.kind, now.version = unknown, a.Version
	default:
		now.kind, now.object, now.version = stored, a.Object, a.Object.ResourceVersion
	}
	if version != "" && !object.OlderResourceVersion(now.version, version) {
		return nil
	}
	return now
}

// ask asks the server for the metadata of the object with the name, or without a name for the version of the
// collection. If the object does not exist, the answer is a Status.
func (o *origin) ask(ctx context.Context, name string) (a apiwrite.Answer, err error) {
	ctx, cancel := context.WithTimeout(ctx, lookupTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, o.lookupURL(name).String(), nil)
	if err != nil {
		return a, err
	}
	request.Header = o.header.Clone()
	request.Header.Del("Content-Type")
	request.Header.Del("Accept-Encoding") // then it is the transport that decompresses
	form := "PartialObjectMetadata"
	if name == "" {
		form = "PartialObjectMetadataList"
	}
	request.Header.Set("Accept", "application/json;as="+form+";g=meta.k8s.io;v=v1,application/json")
	response, err := o.transport.RoundTrip(request)
	if err != nil {
		return a, err
	}
	defer response.Body.Close()
	data, err := io.ReadAll(io.LimitReader(response.Body, maxLookup))
	if err != nil {
		return a, err
	}
	a = apiwrite.Parse(response.Header.Get("Content-Type"), data)
	switch {
	case response.StatusCode == http.StatusNotFound && a.IsStatus && name != "":
	case response.StatusCode != http.StatusOK:
		return a, errors.New(http.StatusText(response.StatusCode))
	case name == "" && a.IsList && a.Version != "":
	case name != "" && a.IsObject():
	default:
		return a, errors.New("the answer cannot be read")
	}
	return a, nil
}

// lookupURL returns the URL of the object with the name, or of the collection.
func (o *origin) lookupURL(name string) *url.URL {
	u := *o.url
	u.RawQuery, u.RawPath = "", ""
	if o.request.Subresource != "" {
		u.Path = strings.TrimSuffix(u.Path, "/"+o.request.Subresource)
	}
	if o.request.Name != "" {
		u.Path = strings.TrimSuffix(u.Path, "/"+o.request.Name)
	}
	if name != "" {
		u.Path += "/" + name
	} else {
		u.RawQuery = "limit=1"
	}
	return &u
}
