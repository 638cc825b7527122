package controller

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tidings/tidings/internal/apiwrite"
	"github.com/tidings/tidings/object"
)

// origin is the request of a write: what is needed to look up its outcome. It holds neither body nor answer, and shares
// nothing with the request, which its caller may change or reuse later.
type origin struct {
	request      apiwrite.Request
	scheme, host string
	header       []headerField // which authorizes a look-up as well
	transport    http.RoundTripper
	// name is that of the written object; "" if it is not known, or if there are several. prefix is what a generated name
	// begins with.
	name, prefix string
	// labels is the selector of a collection that was deleted, and all is set if it was selected by fields.
	labels string
	all    bool
	// refused is set if the server has refused the request, but may have carried out a part of it.
	refused bool

	// The gate's lock guards what follows, once an expectation of the origin is in the gate. next is when it may be looked
	// up, and doubted when it is although the server has confirmed it. undone is how many look-ups in a row have shown that
	// the write was undone. running is set during one.
	next, doubted time.Time
	undone        int
	running       bool
}

type headerField struct {
	name   string
	values []string
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
	// lookupsAtOnce is how many look-ups a gate makes at the same time.
	lookupsAtOnce = 8
	// lookupPage is how many objects a look-up lists at once, and maxLookup how much of an answer is read.
	lookupPage = "500"
	maxLookup  = 16 << 20
)

// set copies what is needed from the request, which must not have been reused yet.
func (o *origin) set(n *note) {
	o.request, o.transport, o.name = n.request, n.tracker.next, n.request.Name
	o.scheme, o.host = n.sent.URL.Scheme, n.sent.URL.Host
	o.header = copied(n.sent.Header)
	if n.request.IsDeleteCollection() {
		query := n.sent.URL.Query()
		o.labels, o.all = query.Get("labelSelector"), query.Get("fieldSelector") != ""
	}
}

// copied returns a copy of those fields of a header that do not concern the body.
func copied(header http.Header) []headerField {
	n := 0
	for _, values := range header {
		n += len(values)
	}
	all := make([]string, 0, n)
	fields := make([]headerField, 0, len(header))
	for name, values := range header {
		switch name {
		case "Content-Type", "Content-Length", "Accept", "Accept-Encoding": // then it is the transport that decompresses
			continue
		}
		all = append(all, values...)
		fields = append(fields, headerField{name, all[len(all)-len(values) : len(all) : len(all)]})
	}
	return fields
}

// again returns the origin for what a look-up has found of an object.
func (o *origin) again(name string) *origin {
	again := *o
	again.name, again.refused = name, false
	now := time.Now()
	again.next, again.doubted, again.undone, again.running = now.Add(lookupEvery), now.Add(lookupAfter), 0, false
	return &again
}

// finding is what a look-up has found.
type finding struct {
	err       error
	forbidden bool // the server refuses to tell
	// objects are those that there are, by name.
	objects map[string]*metav1.ObjectMeta
}

// lookUp asks the server for the object, or for those of the collection.
func (o *origin) lookUp(ctx context.Context) (a finding) {
	ctx, cancel := context.WithTimeout(ctx, lookupTimeout)
	defer cancel()
	a.objects = make(map[string]*metav1.ObjectMeta)
	if o.name != "" {
		got, err := o.ask(ctx, o.request.Path(o.request.Namespace, o.name), nil, "PartialObjectMetadata", &a)
		if a.err = err; err == nil && got.IsObject() {
			a.add(&got.Object)
		}
		return a
	}
	query := url.Values{"limit": {lookupPage}}
	if o.isSelective() {
		query.Set("labelSelector", o.labels)
	}
	for {
		got, err := o.ask(ctx, o.request.Path(o.request.Namespace, ""), query, "PartialObjectMetadataList", &a)
		if a.err = err; err != nil {
			return a
		}
		for i := range got.Items {
			a.add(&got.Items[i])
		}
		if got.Continue == "" {
			return a
		}
		query.Set("continue", got.Continue)
	}
}

func (a *finding) add(o *apiwrite.Object) {
	o.GetLabels()
	a.objects[o.Name] = &o.ObjectMeta
}

// ask sends a GET request, with the authorization of the write. If the object does not exist, the answer is a Status.
func (o *origin) ask(ctx context.Context, path string, query url.Values, form string, about *finding) (a apiwrite.Answer, err error) {
	address := url.URL{Scheme: o.scheme, Host: o.host, Path: path, RawQuery: query.Encode()}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address.String(), nil)
	if err != nil {
		return a, err
	}
	for _, f := range o.header {
		request.Header[f.name] = f.values
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
	list := strings.HasSuffix(form, "List")
	switch {
	case response.StatusCode == http.StatusNotFound && a.IsStatus && !list:
	case response.StatusCode != http.StatusOK:
		about.forbidden = response.StatusCode == http.StatusForbidden || response.StatusCode == http.StatusNotFound
		return a, errors.New(http.StatusText(response.StatusCode))
	case list && a.IsList, !list && a.IsObject():
	default:
		return a, errors.New("the answer cannot be read")
	}
	return a, nil
}

// heldObject is an object that a cache held before a look-up.
type heldObject struct {
	key object.Key
	uid types.UID
	// version is that of the state in the cache.
	version string
}

// deletable returns what the caches hold of a collection that may have been deleted.
func (o *origin) deletable(caches []cacheView) (all []heldObject) {
	if !o.request.IsDeleteCollection() || o.name != "" {
		return nil
	}
	for _, cache := range caches {
		if !cache.tracks(o.request.Resource) {
			continue
		}
		for held := range cache.held(o.request.Namespace) {
			if o.selects(held) {
				all = append(all, heldObject{object.KeyOf(held), held.GetUID(), held.GetResourceVersion()})
			}
		}
	}
	return all
}

// isSelective reports whether the answer to a look-up has only the objects with some labels.
func (o *origin) isSelective() bool { return o.labels != "" && !o.all }

// selects reports whether the answer to a look-up would contain the object.
func (o *origin) selects(obj metav1.Object) bool {
	if !o.isSelective() {
		return true
	}
	selector, err := labels.Parse(o.labels)
	return err == nil && selector.Matches(labels.Set(obj.GetLabels()))
}
