package tidingstest

import (
	"context"

	"github.com/tidings/tidings/internal/protocol"
	"github.com/tidings/tidings/object"
	"github.com/tidings/tidings/tidingstest/internal/rest"
	"github.com/tidings/tidings/tidingstest/internal/storage"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// view is the storage of one request: a collection as a replica that lags behind sees it.
type view struct {
	*storage.Collection
	server *Server
	lag    uint64 // the number of the latest changes that the request does not see
}

func (x *exchange) view() view {
	return view{x.server.store.Collection(x.resource.Storage), x.server, uint64(x.fault.Lag)}
}

// Version implements protocol.Storage.
func (v view) Version() uint64 {
	version := v.server.store.Version()
	if v.lag > version {
		return version
	}
	return version - v.lag
}

// MostRecent implements protocol.Storage.
func (v view) MostRecent(context.Context) (uint64, error) { return v.Version(), nil }

// Reach implements protocol.Storage.
func (v view) Reach(ctx context.Context, version uint64) error {
	return protocol.Reach(ctx, version, func() (uint64, <-chan struct{}) {
		changed := v.server.store.Changed()
		return v.Version(), changed
	}, v.server.ended())
}

// Get implements protocol.Storage.
func (v view) Get(key object.Key) (object.Object, error) {
	if v.lag == 0 {
		return v.Collection.Get(key), nil
	}
	list, err := v.List(v.Version())
	if err != nil {
		return nil, apierrors.NewResourceExpired(err.Error())
	}
	for o := range list.From("", storage.Path(key)) {
		if object.KeyOf(o) == key {
			return o, nil
		}
		break
	}
	return nil, nil
}

// After implements protocol.Storage.
func (v view) After(version uint64) protocol.Tail {
	tail := v.Collection.After(version)
	if v.lag == 0 {
		return tail
	}
	tail.Version -= min(v.lag, tail.Version-version)
	for i, c := range tail.Changes {
		if c.Version > tail.Version {
			tail.Changes = tail.Changes[:i]
			break
		}
	}
	return tail
}

// selection returns the objects that a list, watch or deletecollection is about.
func (x *exchange) selection() (*protocol.Selection, error) {
	request := x.request
	return protocol.NewSelection(&x.resource.ResourceType, request.target(), request.Query, request.Kind.watches(), x.server.options.NoWatchList)
}

func (x *exchange) get() error {
	o, err := protocol.Get(x.r.Context(), x.view(), &x.resource.ResourceType, x.request.target(), x.request.Query)
	if err != nil {
		return err
	}
	if x.request.Subresource == "scale" {
		scale, err := rest.ScaleOf(x.resource, o)
		if err != nil {
			return apierrors.NewInternalError(err)
		}
		return x.writeObject(200, scale)
	}
	return x.writeObject(200, o)
}

func (x *exchange) list() error {
	selection, err := x.selection()
	if err != nil {
		return err
	}
	page, err := protocol.ListPage(x.r.Context(), x.view(), selection)
	if err != nil {
		return err
	}
	return x.writeList(page, x.fault.Items)
}

// writeList responds with a page of a list, to which other items can be added.
func (x *exchange) writeList(page protocol.Page, added []runtime.Object) error {
	if err := x.encoder.CheckList(); err != nil {
		return err
	}
	items := make([]runtime.Object, len(page.Items), len(page.Items)+len(added))
	for i, o := range page.Items {
		items[i] = o
	}
	return x.body.writeList(x.encoder, append(items, added...), page.ListMeta())
}

// writeObject responds with an object or a Status.
func (x *exchange) writeObject(code int, o runtime.Object) error {
	if status, ok := o.(*metav1.Status); ok {
		status.TypeMeta = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}
	}
	return x.body.writeObject(x.encoder, code, o)
}
