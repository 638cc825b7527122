package measure

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tidings/tidings/cmd/tidings/internal/resources"
	"github.com/tidings/tidings/internal/wire/wiretest"
	"github.com/tidings/tidings/tidingstest"
)

var (
	pods      = resources.Resource{GroupVersionResource: corev1.SchemeGroupVersion.WithResource("pods"), Kind: "Pod", Namespaced: true}
	secrets   = resources.Resource{GroupVersionResource: corev1.SchemeGroupVersion.WithResource("secrets"), Kind: "Secret", Namespaced: true}
	nodes     = resources.Resource{GroupVersionResource: corev1.SchemeGroupVersion.WithResource("nodes"), Kind: "Node"}
	databases = resources.Resource{GroupVersionResource: schema.GroupVersionResource{Group: "db.example.com", Version: "v1", Resource: "databases"}, Kind: "Database", Namespaced: true}
)

// podCount is more than a page.
const podCount = 600

// newServer returns a server with these numbers of pods and custom resources, and the encoded size of the
// latter.
func newServer(t *testing.T, pods, custom int) (*tidingstest.Server, int64) {
	server := tidingstest.NewServer(t, tidingstest.ServerOptions{})
	for _, pod := range wiretest.Pods(pods, 1) {
		server.Create(pod)
	}
	server.AddResource(databases.GroupVersionResource, databases.Kind)
	var size int64
	for _, data := range wiretest.CustomResources(custom, 1) {
		o := &unstructured.Unstructured{}
		if err := o.UnmarshalJSON(data); err != nil {
			t.Fatal(err)
		}
		o.SetAPIVersion(databases.GroupVersion().String())
		o.SetKind(databases.Kind)
		server.Create(o)
		size += int64(len(data))
	}
	return server, size
}

func run(t *testing.T, server *tidingstest.Server, opts Options) Report {
	t.Helper()
	report, err := Run(t.Context(), server.Config(), opts)
	if err != nil {
		t.Fatal(err)
	}
	return report
}

func TestRun(t *testing.T) {
	server, size := newServer(t, podCount, 300)
	report := run(t, server, Options{Resources: []resources.Resource{pods, databases, nodes}, Trim: true})
	if err := report.Err(); err != nil || len(report.Resources) != 3 {
		t.Fatal(report.Failures, err)
	}
	for i, want := range []int64{podCount, 300, 0} {
		r := report.Resources[i]
		if r.Objects != want || r.Sampled != want || r.Extrapolated {
			t.Errorf("%s: %d objects, %d sampled, want %d", r.Resource, r.Objects, r.Sampled, want)
		}
		if want > 0 {
			checkWeights(t, r)
			checkFolded(t, r)
		} else if r.Folded != nil {
			t.Errorf("%s: nothing is folded: %+v", r.Resource, r.Folded)
		}
	}
	if got := report.Resources[1].WireBytes; got < size-size/10 || got > size+size/10 {
		t.Errorf("databases have %d bytes, want about %d", got, size)
	}
	if got := report.Total; got.Objects != podCount+300 || got.ClientGo.CacheBytes < report.Resources[0].ClientGo.CacheBytes+report.Resources[1].ClientGo.CacheBytes ||
		got.TidingsTrimmed.CacheBytes >= got.Tidings.CacheBytes || got.Ratio <= 0 || got.Ratio >= 1 {
		t.Errorf("total %+v", got)
	}
	if requests := server.Requests(tidingstest.Any); len(requests) != 4 || requests[1].Query.Get("continue") == "" {
		t.Errorf("pods take two requests, the others one: %d", len(requests))
	}
}

// checkWeights checks invariants for objects that are alike.
func checkWeights(t *testing.T, r Result) {
	t.Helper()
	theirs, ours := r.ClientGo, r.Tidings
	switch {
	case theirs.HeapBytes < uint64(r.WireBytes), theirs.HeapObjects < 10*uint64(r.Objects):
		t.Errorf("%s: too little for client-go: %+v", r.Resource, theirs)
	case theirs.CacheBytes <= theirs.HeapBytes, ours.CacheBytes <= ours.HeapBytes:
		t.Errorf("%s: a store weighs nothing: %+v, %+v", r.Resource, theirs, ours)
	case 5*ours.CacheBytes > 3*theirs.CacheBytes, 4*ours.CacheObjects > theirs.CacheObjects:
		t.Errorf("%s: ours takes %+v, client-go's %+v", r.Resource, ours, theirs)
	case r.ClientGoTrimmed.CacheBytes >= theirs.CacheBytes, r.TidingsTrimmed.CacheBytes >= ours.CacheBytes:
		t.Errorf("%s: trimming saves nothing: %+v, %+v", r.Resource, r.ClientGoTrimmed, r.TidingsTrimmed)
	case r.Metadata == nil || r.Metadata.CacheBytes == 0 || r.Metadata.CacheBytes >= ours.CacheBytes:
		t.Errorf("%s: metadata %+v of %+v", r.Resource, r.Metadata, ours)
	case theirs.SyncSeconds < r.FetchSeconds+theirs.DecodeSeconds, ours.DecodeSeconds <= 0, r.FetchSeconds <= 0:
		t.Errorf("%s: times %v, %+v, %+v", r.Resource, r.FetchSeconds, theirs, ours)
	case len(r.Sharing.Fields) == 0, r.Sharing.SharedBytes == 0, r.Sharing.Bytes != uint64(r.WireBytes):
		t.Errorf("%s: sharing %+v", r.Resource, r.Sharing)
	}
	for i, f := range r.Sharing.Fields {
		if i > 0 && f.SharedBytes > r.Sharing.Fields[i-1].SharedBytes {
			t.Errorf("%s: %s is out of order", r.Resource, f.Field)
		}
	}
}

// checkFolded checks invariants for objects that can all be folded.
func checkFolded(t *testing.T, r Result) {
	t.Helper()
	f := r.Folded
	switch {
	case f == nil:
		t.Errorf("%s: nothing is folded", r.Resource)
	case f.Objects > r.Objects, f.Objects < r.Objects*2/3, f.Unfoldable != 0:
		t.Errorf("%s: %d objects of %d are folded: %+v", r.Resource, f.Objects, r.Objects, f)
	case f.PackedBytes == 0, f.PackedBytes >= f.EncodedBytes, f.EncodedBytes > uint64(r.WireBytes)*2, f.OpenSeconds <= 0:
		t.Errorf("%s: packed %+v", r.Resource, f)
	case f.Budget < f.PackedBytes, f.Budget > r.Tidings.CacheBytes:
		t.Errorf("%s: a budget of %d for %d packed bytes, and %d open ones", r.Resource, f.Budget, f.PackedBytes, r.Tidings.CacheBytes)
	}
}

// TestBudgetIsSmall: everything fits into the reported budget plus some room, but not into half of it.
func TestBudgetIsSmall(t *testing.T) {
	var raw [][]byte
	for _, pod := range wiretest.Pods(podCount, 1) {
		data, err := pod.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		raw = append(raw, data)
	}
	kind := corev1.SchemeGroupVersion.WithKind("Pod")
	k := builtinKinds()[kind]
	folds := foldMeasurer{raw, k, kind, pods.GroupVersionResource}
	f, err := folds.smallest(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		budget int64
		kept   bool
	}{{int64(f.Budget) * 3 / 2, true}, {int64(f.Budget) / 2, false}} {
		if _, kept, err := folds.tryBudget(t.Context(), test.budget); kept != test.kept || err != nil {
			t.Errorf("with %d of %d: kept %t, %v", test.budget, f.Budget, kept, err)
		}
	}
}

// TestFoldEndsEarly: a context that has ended stops the informer.
func TestFoldEndsEarly(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	kind := corev1.SchemeGroupVersion.WithKind("Pod")
	folds := foldMeasurer{nil, builtinKinds()[kind], kind, pods.GroupVersionResource}
	if _, err := folds.smallest(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

// TestSample: extrapolated figures are close to measured ones, and the rest is not requested from the server.
func TestSample(t *testing.T) {
	server, _ := newServer(t, podCount, 0)
	all := run(t, server, Options{Resources: []resources.Resource{pods}}).Resources[0]
	before := server.Count(tidingstest.List)
	some := run(t, server, Options{Resources: []resources.Resource{pods}, Sample: podCount / 2}).Resources[0]
	if some.Objects != podCount || some.Sampled != podCount/2 || !some.Extrapolated {
		t.Errorf("%d objects, %d sampled", some.Objects, some.Sampled)
	}
	if n := server.Count(tidingstest.List) - before; n != 1 {
		t.Errorf("%d requests", n)
	}
	for name, pair := range map[string][2]uint64{
		"wire": {uint64(all.WireBytes), uint64(some.WireBytes)}, "client-go": {all.ClientGo.CacheBytes, some.ClientGo.CacheBytes},
		"objects": {all.ClientGo.CacheObjects, some.ClientGo.CacheObjects},
	} {
		if r := ratio(pair[1], pair[0]); r < 0.85 || r > 1.15 {
			t.Errorf("%s: %d extrapolated, %d measured", name, pair[1], pair[0])
		}
	}
	limited := run(t, server, Options{Resources: []resources.Resource{pods}, MaxBytes: 100_000}).Resources[0]
	if limited.Objects != podCount || limited.Sampled < 10 || limited.Sampled > 50 || !limited.Extrapolated {
		t.Errorf("with a limit of bytes: %d objects, %d sampled", limited.Objects, limited.Sampled)
	}
}

func TestNamespaces(t *testing.T) {
	server, _ := newServer(t, 50, 0)
	count := map[string]int64{}
	for _, pod := range wiretest.Pods(50, 1) {
		count[pod.Namespace]++
	}
	for namespace, want := range count {
		got := run(t, server, Options{Resources: []resources.Resource{pods, nodes}, Namespaces: []string{namespace, "empty"}})
		if got.Total.Objects != want || got.Err() != nil {
			t.Errorf("%s: %d pods, want %d: %v", namespace, got.Total.Objects, want, got.Failures)
		}
	}
}

func TestFailures(t *testing.T) {
	server, _ := newServer(t, 0, 20)
	resource := schema.GroupResource{Resource: "secrets"}
	tests := map[string]struct {
		fault     tidingstest.Fault
		want      string
		forbidden bool
	}{
		"forbidden":   {tidingstest.Fault{Err: apierrors.NewForbidden(resource, "", errors.New("no"))}, "grant the verb list on it", true},
		"expired":     {tidingstest.Fault{Err: apierrors.NewResourceExpired("too old")}, "try --sample", false},
		"no protobuf": {tidingstest.Fault{Err: apierrors.NewGenericServerResponse(http.StatusNotAcceptable, "get", resource, "", "", 0, false)}, "protobuf", false},
		"hang-up":     {tidingstest.Fault{HangUp: true}, "EOF", false},
		"garbage": {tidingstest.Fault{Answer: &tidingstest.Answer{Code: http.StatusOK, ContentType: "application/vnd.kubernetes.protobuf", Body: []byte("hunter2")}},
			"withheld", false},
	}
	for name, test := range tests {
		server.ClearFaults()
		test.fault.Resource = "secrets"
		server.InjectAlways(tidingstest.Any, test.fault)
		report := run(t, server, Options{Resources: []resources.Resource{secrets, databases}, Sample: 10})
		if len(report.Failures) != 1 || len(report.Resources) != 1 || report.Resources[0].Resource != databases.Name() {
			t.Errorf("%s: %+v", name, report)
			continue
		}
		f := report.Failures[0]
		if f.Resource != "secrets" || f.Forbidden != test.forbidden || !strings.Contains(f.Message, test.want) || strings.Contains(f.Message, "hunter2") {
			t.Errorf("%s: %+v, want %q", name, f, test.want)
		}
		if err := report.Err(); (err == nil) != test.forbidden {
			t.Errorf("%s: %v", name, err)
		}
		if err := run(t, server, Options{Resources: []resources.Resource{secrets}}).Err(); err == nil || err.Error() != "nothing could be measured" {
			t.Errorf("%s alone: %v", name, err)
		}
	}
}

// TestSecretsStayInside: neither form of a report contains a value, key or name of a secret.
func TestSecretsStayInside(t *testing.T) {
	server := tidingstest.NewServer(t, tidingstest.ServerOptions{})
	for i := range 50 {
		server.Create(&corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: fmt.Sprintf("hunter-%d", i), Labels: map[string]string{"hunter": "hunter"}},
			Data:       map[string][]byte{"hunter": []byte("hunter2")}, Type: "hunter.example.com/x",
		})
	}
	report := run(t, server, Options{Resources: []resources.Resource{secrets}})
	if text := report.Text(1000, 0) + fmt.Sprintf("%+v", report); report.Total.Objects != 50 || strings.Contains(text, "hunter") {
		t.Error(text)
	}
}

// TestEmptyPages: a list of endless empty pages is given up.
func TestEmptyPages(t *testing.T) {
	server, _ := newServer(t, 0, 1)
	body := []byte(`{"kind":"DatabaseList","apiVersion":"db.example.com/v1","metadata":{"continue":"more"},"items":[]}`)
	server.InjectAlways(tidingstest.Any, tidingstest.Fault{Answer: &tidingstest.Answer{Code: http.StatusOK, ContentType: "application/json", Body: body}})
	report := run(t, server, Options{Resources: []resources.Resource{databases}})
	if len(report.Failures) != 1 || report.Failures[0].Message != errEmptyPage.Error() {
		t.Errorf("%+v", report)
	}
}

func TestCanceled(t *testing.T) {
	server, _ := newServer(t, 10, 0)
	reason := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	progress := func(text string) {
		if strings.HasPrefix(text, "weighing") {
			cancel(reason)
		}
	}
	if _, err := Run(ctx, server.Config(), Options{Resources: []resources.Resource{pods}, Progress: progress}); err != reason {
		t.Error(err)
	}
}
