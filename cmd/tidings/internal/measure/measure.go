// Package measure measures the memory that a cluster's objects take in a cache of client-go, and in one of ours.
//
//	server ──lists──► encoded objects ──┬─► generated decoder ─► list ─► map and index  ─► Weight
//	                  (kept, bounded)   ├─► sharing decoder   ─► list ─► store          ─► Weight
//	                                    └─► an informer with a memory budget            ─► Folded
//
// Every resource is read once, and all caches get the same bytes, one after the other. The memory they take is the
// difference of the live heap before and after. Nothing is ever written to the cluster, and of the objects only sizes
// and field names are reported.
package measure

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/tidings/tidings/cmd/tidings/internal/resources"
	"github.com/tidings/tidings/internal/redact"
)

// DefaultMaxBytes is the default of Options.MaxBytes.
const DefaultMaxBytes = 64 << 20

// Options configures Run.
type Options struct {
	Resources []resources.Resource
	// Namespaces limits namespaced resources; none means all.
	Namespaces []string
	// Sample is the number of objects of each resource to decode; 0 means as many as MaxBytes allows.
	Sample int
	// MaxBytes is the number of encoded bytes of each resource to decode; 0 means DefaultMaxBytes. The process needs
	// about five times as much memory, or ten times with unstructured objects.
	MaxBytes int64
	// Trim also measures without metadata.managedFields.
	Trim bool
	// Progress is called with a short description of what is being done. It may be nil.
	Progress func(text string)
}

// complete sets defaults.
func (o Options) complete() Options {
	if o.MaxBytes == 0 {
		o.MaxBytes = DefaultMaxBytes
	}
	if o.Progress == nil {
		o.Progress = func(string) {}
	}
	return o
}

// Run measures the resources. A resource that cannot be measured is a Failure in the report; the error is for what
// concerns all of them, such as the end of ctx. The figures are correct only if the process does nothing else
// meanwhile.
func Run(ctx context.Context, config *rest.Config, opts Options) (Report, error) {
	opts = opts.complete()
	f, err := newFetcher(config, opts)
	if err != nil {
		return Report{}, fmt.Errorf("cannot use the kubeconfig: %w", err)
	}
	kinds := builtinKinds()
	report := Report{Resources: []Result{}, Failures: []Failure{}, everywhere: len(opts.Namespaces) == 0}
	for _, r := range opts.Resources {
		result, err := measure(ctx, f, kinds, r, opts)
		switch {
		case ctx.Err() != nil:
			return report, context.Cause(ctx)
		case err != nil:
			report.Failures = append(report.Failures, failure(r, err))
		default:
			report.Resources = append(report.Resources, result)
			report.Total.add(result)
		}
	}
	return report, nil
}

func measure(ctx context.Context, f *fetcher, kinds map[schema.GroupVersionKind]kind, r resources.Resource, opts Options) (Result, error) {
	k, ok := kinds[r.GroupVersion().WithKind(r.Kind)]
	if !ok {
		k = unstructuredKind(r.GroupVersion().String(), r.Kind)
	}
	namespaces := opts.Namespaces
	if !r.Namespaced || len(namespaces) == 0 {
		namespaces = []string{""}
	}
	opts.Progress("reading " + r.Name())
	c, err := f.fetch(ctx, r.GroupVersionResource, k.encoding, namespaces)
	if err != nil {
		return Result{}, err
	}
	opts.Progress(fmt.Sprintf("weighing %d %s", len(c.raw), r.Name()))
	return compare(ctx, k, c, r, opts.Trim)
}

// compare measures what was read, in all ways.
func compare(ctx context.Context, k kind, c *collection, r resources.Resource, trim bool) (Result, error) {
	result := Result{
		Resource: r.Name(), Version: r.Version, Encoding: k.encoding,
		Objects: c.objects(), Sampled: int64(len(c.raw)), Extrapolated: c.objects() > int64(len(c.raw)),
		WireBytes: c.bytes, FetchSeconds: c.took.Seconds(),
	}
	if c.unread > 0 {
		factor := ratio(float64(c.objects()), float64(c.read))
		result.WireBytes, result.FetchSeconds = int64(float64(c.bytes)*factor), result.FetchSeconds*factor
	}
	scale := func(w Weight) Weight {
		if result.Extrapolated {
			w = w.times(ratio(float64(result.Objects), float64(result.Sampled)))
		}
		w.SyncSeconds = result.FetchSeconds + w.DecodeSeconds
		return w
	}
	clientGo, tidings, shared, err := weighBoth(ctx, k, c.raw, false)
	if err != nil {
		return Result{}, err
	}
	result.ClientGo, result.Tidings, result.Sharing = scale(clientGo), scale(tidings), shared
	if len(c.raw) > 0 {
		folded, err := foldMeasurer{c.raw, k, r.GroupVersion().WithKind(r.Kind), r.GroupVersionResource}.smallest(ctx)
		if err != nil {
			return Result{}, err
		}
		result.Folded = new(folded.times(ratio(float64(result.Objects), float64(result.Sampled))))
		metadata, _, err := weigh(ctx, c.raw, func() (cache, error) { return k.metadata(len(c.raw)) })
		if err != nil {
			return Result{}, err
		}
		result.Metadata = new(scale(metadata))
	}
	result.UnreadBytes = result.unread()
	if !trim {
		return result, nil
	}
	if clientGo, tidings, _, err = weighBoth(ctx, k, c.raw, true); err != nil {
		return Result{}, err
	}
	result.ClientGoTrimmed, result.TidingsTrimmed = new(scale(clientGo)), new(scale(tidings))
	return result, nil
}

// weighBoth measures the objects in a cache of each library.
func weighBoth(ctx context.Context, k kind, raw [][]byte, trim bool) (clientGo, tidings Weight, shared Sharing, err error) {
	clientGo, _, err = weigh(ctx, raw, func() (cache, error) { return k.clientGo(len(raw), trim) })
	if err != nil {
		return clientGo, tidings, shared, err
	}
	tidings, stats, err := weigh(ctx, raw, func() (cache, error) { return k.tidings(len(raw), trim) })
	return clientGo, tidings, sharing(stats), err
}

// failure describes in the user's terms why a resource could not be measured.
func failure(r resources.Resource, err error) Failure {
	f := Failure{Resource: r.Name(), Forbidden: apierrors.IsForbidden(err), Message: redact.Error(r.GroupResource(), err)}
	switch {
	case f.Forbidden:
		f.Message += "; grant the verb list on it, or leave it out"
	case apierrors.IsResourceExpired(err):
		f.Message += "; the list took longer than the server keeps its history; try --sample"
	case apierrors.IsNotAcceptable(err):
		f.Message += "; the server does not serve this resource in protobuf, which client-go requests"
	}
	return f
}

// Err returns an error if the report lacks something unexpectedly: nil means that something was measured, and
// everything but forbidden resources.
func (r Report) Err() error {
	if len(r.Resources) == 0 && len(r.Failures) > 0 {
		return errors.New("nothing could be measured")
	}
	failed := 0
	for _, f := range r.Failures {
		if !f.Forbidden {
			failed++
		}
	}
	if failed > 0 {
		return fmt.Errorf("%d of %d resources could not be measured", failed, len(r.Resources)+len(r.Failures))
	}
	return nil
}
