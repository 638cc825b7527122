package tidingstest

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/tidings/tidings/object"
	"github.com/tidings/tidings/tidingstest/internal/rest"
	"github.com/tidings/tidings/tidingstest/internal/storage"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metascheme "k8s.io/apimachinery/pkg/apis/meta/internalversion/scheme"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/internalversion/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// freshPatience is how long a read waits for a version that does not exist yet.
const freshPatience = 3 * time.Second

func (x *exchange) collection() *storage.Collection {
	return x.server.store.Collection(x.resource.Storage)
}

// decodeQuery decodes the options in the URL into a metav1 type or its internal version.
func (x *exchange) decodeQuery(into runtime.Object) error {
	if err := metascheme.ParameterCodec.DecodeParameters(x.request.Query, metav1.SchemeGroupVersion, into); err != nil {
		return apierrors.NewBadRequest(err.Error())
	}
	return nil
}

// listOptions decodes and validates the options of a list, watch or deletecollection.
func (x *exchange) listOptions() (*internalversion.ListOptions, error) {
	options := &internalversion.ListOptions{}
	if err := x.decodeQuery(options); err != nil {
		return nil, err
	}
	options.Watch = x.request.Kind.watches()
	if errs := metavalidation.ValidateListOptions(options, !x.server.options.NoWatchList); len(errs) > 0 {
		return nil, apierrors.NewInvalid(schema.GroupKind{Group: metav1.GroupName, Kind: "ListOptions"}, "", errs)
	}
	if err := x.resource.CheckFields(options.FieldSelector); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	return options, nil
}

// selection returns a function that reports whether an object matches the request's namespace, name and selectors.
func (x *exchange) selection(options *internalversion.ListOptions) func(object.Object) bool {
	namespace, name, resource := x.request.Namespace, x.request.Name, x.resource
	byLabel, byField := options.LabelSelector, options.FieldSelector
	return func(o object.Object) bool {
		return (namespace == "" || namespace == o.GetNamespace()) && (name == "" || name == o.GetName()) &&
			(byLabel == nil || byLabel.Matches(labels.Set(o.GetLabels()))) &&
			(byField == nil || byField.Empty() || byField.Matches(resource.Fields(o)))
	}
}

// now returns the version that this request sees as the latest.
func (x *exchange) now() uint64 {
	version, lag := x.server.store.Version(), uint64(x.fault.Lag)
	if lag == 0 || lag > version {
		return version
	}
	return version - lag
}

// waitUntilFresh waits a moment for a version that does not exist yet.
func (x *exchange) waitUntilFresh(version uint64) error {
	timer := time.NewTimer(freshPatience)
	defer timer.Stop()
	for {
		changed := x.server.store.Changed()
		if version <= x.now() {
			return nil
		}
		select {
		case <-changed:
		case <-timer.C:
			return tooLarge(version, x.now())
		case <-x.r.Context().Done():
			return errCut
		case <-x.server.ended():
			return errCut
		}
	}
}

func tooLarge[V uint64 | string](version, current V) error {
	err := apierrors.NewTimeoutError(fmt.Sprintf("Too large resource version: %v, current: %v", version, current), 1)
	err.ErrStatus.Details.Causes = []metav1.StatusCause{{
		Type:    metav1.CauseTypeResourceVersionTooLarge,
		Message: "Too large resource version",
	}}
	return err
}

func parseVersion(version string) (uint64, error) {
	if version == "" {
		return 0, nil
	}
	n, err := strconv.ParseUint(version, 10, 63)
	if err != nil {
		return 0, fmt.Errorf("resourceVersion: Invalid value: %q: %w", version, err)
	}
	return n, nil
}

func (x *exchange) get() error {
	options := &metav1.GetOptions{}
	if err := x.decodeQuery(options); err != nil {
		return err
	}
	version, err := parseVersion(options.ResourceVersion)
	if err != nil {
		return err
	}
	if err := x.waitUntilFresh(version); err != nil {
		return err
	}
	o, err := x.read()
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

// read returns the object that the request names, at the version that the request sees.
func (x *exchange) read() (object.Object, error) {
	key := object.Key{Namespace: x.request.Namespace, Name: x.request.Name}
	if x.fault.Lag == 0 {
		if o := x.collection().Get(key); o != nil {
			return o, nil
		}
		return nil, apierrors.NewNotFound(x.resource.GroupResource(), x.request.Name)
	}
	list, err := x.collection().List(x.now())
	if err != nil {
		return nil, apierrors.NewResourceExpired(err.Error())
	}
	if found := list.From(storage.Path(key)); len(found) > 0 && found[0].Path == storage.Path(key) {
		return found[0].Object, nil
	}
	return nil, apierrors.NewNotFound(x.resource.GroupResource(), x.request.Name)
}

func (x *exchange) list() error {
	options, err := x.listOptions()
	if err != nil {
		return err
	}
	page, err := x.listPage(options)
	if err != nil {
		return err
	}
	items := append(page.items, x.fault.Items...)
	if x.encoder.requestedKind == "PartialObjectMetadata" {
		return &apierrors.StatusError{ErrStatus: metav1.Status{
			Status: metav1.StatusFailure, Code: http.StatusNotAcceptable, Reason: metav1.StatusReasonNotAcceptable,
			Message: "you requested PartialObjectMetadata, but the requested object is a list",
		}}
	}
	list, err := x.encoder.list(items, strconv.FormatUint(page.version, 10), page.next, page.remaining)
	if err != nil {
		return apierrors.NewInternalError(err)
	}
	return x.body.writeObject(x.encoder, 200, list)
}

// page is a page of a list.
type page struct {
	items     []runtime.Object
	version   uint64
	next      string // the continue token
	remaining *int64
}

func (x *exchange) listPage(options *internalversion.ListOptions) (page, error) {
	at, start, err := x.position(options)
	if err != nil {
		return page{}, err
	}
	list, err := x.collection().List(at)
	switch {
	case errors.Is(err, storage.ErrCompacted):
		return page{}, expired(start)
	case err != nil:
		return page{}, errCut // it was removed in the meantime
	}
	prefix := ""
	if x.request.Namespace != "" {
		prefix = x.request.Namespace + "/"
	}
	entries, selected := list.From(max(prefix, start)), x.selection(options)
	p := page{version: at}
	for i, e := range entries {
		if !strings.HasPrefix(e.Path, prefix) {
			break
		}
		if !selected(e.Object) {
			continue
		}
		if options.Limit > 0 && int64(len(p.items)) == options.Limit {
			p.next = encodeToken(token{Version: "meta.k8s.io/v1", ResourceVersion: int64(at), Start: entries[i-1].Path + "\x00"})
			if isEmpty(options) {
				p.remaining = countPrefix(entries[i:], prefix)
			}
			break
		}
		p.items = append(p.items, e.Object)
	}
	return p, nil
}

func isEmpty(options *internalversion.ListOptions) bool {
	return (options.LabelSelector == nil || options.LabelSelector.Empty()) && (options.FieldSelector == nil || options.FieldSelector.Empty())
}

func countPrefix(entries []storage.Entry, prefix string) *int64 {
	n := int64(0)
	for _, e := range entries {
		if !strings.HasPrefix(e.Path, prefix) {
			break
		}
		n++
	}
	return &n
}

// position returns the version that a list requests, and the path at which its page starts.
func (x *exchange) position(options *internalversion.ListOptions) (at uint64, start string, err error) {
	version, err := parseVersion(options.ResourceVersion)
	if err != nil {
		return 0, "", apierrors.NewBadRequest("invalid resource version: " + err.Error())
	}
	if options.Continue != "" {
		if version != 0 {
			return 0, "", apierrors.NewBadRequest("specifying resource version is not allowed when using continue")
		}
		return x.continued(options.Continue)
	}
	if err := x.waitUntilFresh(version); err != nil {
		return 0, "", err
	}
	if options.ResourceVersionMatch == metav1.ResourceVersionMatchExact {
		return version, "", nil
	}
	return x.now(), "", nil
}

func (x *exchange) continued(text string) (at uint64, start string, err error) {
	t, err := decodeToken(text)
	if err != nil {
		return 0, "", apierrors.NewBadRequest("invalid continue token: continue key is not valid: " + err.Error())
	}
	if t.ResourceVersion < 0 {
		return x.now(), t.Start, nil
	}
	if err := x.waitUntilFresh(uint64(t.ResourceVersion)); err != nil {
		return 0, "", err
	}
	return uint64(t.ResourceVersion), t.Start, nil
}

// expired returns the error for a version that is too old. A client that was reading page by page gets a token with which
// to read the rest at the latest version.
func expired(start string) error {
	if start == "" {
		return apierrors.NewResourceExpired("The resourceVersion for the provided list is too old.")
	}
	err := apierrors.NewResourceExpired("The provided continue parameter is too old to display a consistent list result. " +
		"You can start a new list without the continue parameter, or use the continue token in this response to retrieve the " +
		"remainder of the results. Continuing with the provided token results in an inconsistent list - objects that were " +
		"created, modified, or deleted between the time the first chunk was returned and now may show up in the list.")
	err.ErrStatus.Continue = encodeToken(token{Version: "meta.k8s.io/v1", ResourceVersion: -1, Start: start})
	return err
}

// token is the content of a continue token.
type token struct {
	Version         string `json:"v"`
	ResourceVersion int64  `json:"rv"` // -1 is the latest
	Start           string `json:"start"`
}

func encodeToken(t token) string {
	data, _ := json.Marshal(t) // cannot fail for strings and a number
	return base64.RawURLEncoding.EncodeToString(data)
}

func decodeToken(s string) (t token, err error) {
	data, err := base64.RawURLEncoding.DecodeString(s)
	if err == nil {
		err = json.Unmarshal(data, &t)
	}
	switch {
	case err != nil:
		return t, err
	case t.Version != "meta.k8s.io/v1":
		return t, fmt.Errorf("server does not recognize this encoded version %v", t.Version)
	case t.ResourceVersion == 0 || t.ResourceVersion < -1:
		return t, errors.New("incorrect encoded start resourceVersion (version meta.k8s.io/v1)")
	case t.Start == "":
		return t, errors.New("encoded start key empty (version meta.k8s.io/v1)")
	case strings.TrimPrefix(path.Clean("/"+t.Start), "/") != t.Start:
		return t, errors.New("invalid key")
	}
	return t, nil
}

// writeObject responds with an object or a Status.
func (x *exchange) writeObject(code int, o runtime.Object) error {
	if status, ok := o.(*metav1.Status); ok {
		status.TypeMeta = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}
	}
	return x.body.writeObject(x.encoder, code, x.encoder.object(o))
}
