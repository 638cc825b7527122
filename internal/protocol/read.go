package protocol

import (
	"context"
	"errors"
	"net/url"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tidings/tidings/object"
)

// Get returns the object that a request names, at a version that the query allows.
func Get(ctx context.Context, s Storage, r *ResourceType, t Target, query url.Values) (object.Object, error) {
	options := &metav1.GetOptions{}
	if err := DecodeQuery(query, options); err != nil {
		return nil, err
	}
	version, err := ParseVersion(options.ResourceVersion)
	if err != nil {
		return nil, err
	}
	if options.ResourceVersion == "" {
		_, err = s.MostRecent(ctx)
	} else {
		err = s.Reach(ctx, version)
	}
	if err != nil {
		return nil, err
	}
	o, err := s.Get(object.Key{Namespace: t.Namespace, Name: t.Name})
	if err == nil && o == nil {
		err = apierrors.NewNotFound(r.GroupResource(), t.Name)
	}
	return o, err
}

// Page is a page of a list.
type Page struct {
	Items     []object.Object
	Version   uint64
	Continue  string // the continue token; empty on the last page
	Remaining *int64 // the number of objects after the page; nil if unknown
}

// ListPage returns the page of a list that a selection's options ask for. A version that is too old
// is a StatusError for which errors.Is(err, ErrCompacted) is true.
func ListPage(ctx context.Context, s Storage, selection *Selection) (Page, error) {
	at, start, err := position(ctx, s, selection)
	if err != nil {
		return Page{}, err
	}
	list, err := s.List(at)
	switch {
	case errors.Is(err, ErrCompacted):
		return Page{}, expired(start)
	case err != nil:
		return Page{}, ErrCut // it was removed in the meantime
	}
	p := Page{Version: at}
	p.fill(selection, list, start)
	return p, nil
}

// fill selects the objects of a page. Like an API server, it says that there is more once the page is full and objects
// follow, whether they match or not.
func (p *Page) fill(selection *Selection, list List, start string) {
	limit := selection.limit()
	for o := range selection.objects(list, start) {
		if !selection.matchesInside(o) {
			continue
		}
		p.Items = append(p.Items, o)
		if limit <= 0 || int64(len(p.Items)) < limit {
			continue
		}
		if _, single := selection.only(); single {
			return
		}
		next := strings.TrimPrefix(object.KeyOf(o).String(), selection.prefix()) + "\x00"
		if selection.hasMore(list, next) {
			p.Continue = Token{int64(p.Version), next}.String()
			if selection.matchesAll() {
				p.Remaining = new(int64(list.Count(selection.prefix(), next)))
			}
		}
		return
	}
}

// position returns the version that a list requests, and where its page starts, without the prefix.
func position(ctx context.Context, s Storage, selection *Selection) (at uint64, start string, err error) {
	options := selection.Options
	version, err := ParseVersion(options.ResourceVersion)
	if err != nil {
		return 0, "", apierrors.NewBadRequest("invalid resource version: " + err.Error())
	}
	if options.Continue != "" {
		if options.ResourceVersion != "" && options.ResourceVersion != "0" {
			return 0, "", apierrors.NewBadRequest("specifying resource version is not allowed when using continue")
		}
		return continued(ctx, s, options.Continue)
	}
	if options.ResourceVersion == "" {
		at, err = s.MostRecent(ctx)
		return at, "", err
	}
	if err := s.Reach(ctx, version); err != nil {
		return 0, "", err
	}
	if selection.isExact() {
		return version, "", nil
	}
	return s.Version(), "", nil
}

func continued(ctx context.Context, s Storage, text string) (at uint64, start string, err error) {
	t, err := ParseToken(text)
	if err != nil {
		return 0, "", apierrors.NewBadRequest("invalid continue token: continue key is not valid: " + err.Error())
	}
	if t.ResourceVersion < 0 {
		at, err = s.MostRecent(ctx)
		return at, t.Start, err
	}
	if err := s.Reach(ctx, uint64(t.ResourceVersion)); err != nil {
		return 0, "", err
	}
	return uint64(t.ResourceVersion), t.Start, nil
}
