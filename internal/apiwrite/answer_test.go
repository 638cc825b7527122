package apiwrite

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/iotest"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/cbor"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/randfill"

	"github.com/tidings/tidings/internal/testseed"
)

// encodings encode an object as a server would.
var encodings = map[string]func(runtime.Object) ([]byte, error){
	"application/json": func(o runtime.Object) ([]byte, error) { return json.Marshal(o) },
	"application/json; sorted": func(o runtime.Object) ([]byte, error) {
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
		if err != nil {
			return nil, err
		}
		return json.MarshalIndent(content, "", "  ")
	},
	"application/vnd.kubernetes.protobuf": func(o runtime.Object) ([]byte, error) {
		return runtime.Encode(protobuf.NewSerializer(scheme.Scheme, scheme.Scheme), o)
	},
	"application/cbor": func(o runtime.Object) ([]byte, error) {
		return runtime.Encode(cbor.NewSerializer(scheme.Scheme, scheme.Scheme), o)
	},
}

// randomPod returns a pod with random metadata.
func randomPod(seed uint64) *corev1.Pod {
	pod := &corev1.Pod{}
	f := randfill.NewWithSeed(int64(seed)).NilChance(0.3).NumElements(0, 4).Funcs(
		func(t *metav1.Time, c randfill.Continue) { *t = metav1.Unix(int64(c.Uint32()), 0) },
		func(f *metav1.FieldsV1, c randfill.Continue) {
			f.SetRawString(`{"f:metadata":{"f:labels":{"f:uid \"}":{}}}}`)
		},
	)
	f.Fill(&pod.ObjectMeta)
	pod.UID, pod.ResourceVersion = types.UID("uid-"+string(pod.UID)), "1"+pod.ResourceVersion
	pod.Spec.Containers = []corev1.Container{{Name: `metadata":{"uid":"no"`, Image: strings.Repeat(`\"`, 20)}}
	pod.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Pod"))
	return pod
}

func check(t *testing.T, got *Object, want *metav1.ObjectMeta) {
	t.Helper()
	grace := func(s *int64) int64 {
		if s == nil {
			return -1
		}
		return *s
	}
	if got.Name != want.Name || got.Namespace != want.Namespace || got.UID != want.UID || got.ResourceVersion != want.ResourceVersion ||
		(got.DeletionTimestamp == nil) != (want.DeletionTimestamp == nil) ||
		!slices.Equal(got.Finalizers, want.Finalizers) ||
		!maps.Equal(got.GetLabels(), want.Labels) ||
		grace(got.DeletionGracePeriodSeconds) != grace(want.DeletionGracePeriodSeconds) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

// TestObjects reads objects with random metadata in every encoding, whole and cut at random.
func TestObjects(t *testing.T) {
	testseed.Each(t, 200, func(t *testing.T, seed uint64) {
		pod := randomPod(seed)
		number := rand.New(rand.NewPCG(seed, 2)).IntN
		for media, encode := range encodings {
			data, err := encode(pod)
			if err != nil {
				t.Fatal(err)
			}
			a := Parse(media, data)
			if !a.IsObject() {
				t.Fatalf("%s: not understood: %q", media, data)
			}
			check(t, &a.Object, &pod.ObjectMeta)
			for range 20 {
				cut := Parse(media, data[:number(len(data))])
				if cut.IsObject() {
					check(t, &cut.Object, &pod.ObjectMeta)
				} else if cut.Understood() {
					t.Errorf("%s: part of an object became %+v", media, cut)
				}
			}
		}
	})
}

// TestNulls reads what has nulls where values can be.
func TestNulls(t *testing.T) {
	a := Parse("application/json", []byte(`{"kind":"Pod","spec":null,"metadata":{"name":"a","uid":"u",`+
		`"resourceVersion":"5","deletionTimestamp":null,"deletionGracePeriodSeconds":null,"labels":null,`+
		`"finalizers":null,"namespace":null}}`))
	if !a.IsObject() {
		t.Fatalf("not understood: %+v", a)
	}
	check(t, &a.Object, &metav1.ObjectMeta{Name: "a", UID: "u", ResourceVersion: "5"})
	a = Parse("application/json", []byte(`{"kind":"PodList","metadata":{"resourceVersion":"7","continue":"more"},"items":null}`))
	if !a.IsList || a.Continue != "more" || len(a.Items) != 0 {
		t.Errorf("an empty list: %+v", a)
	}
	a = Parse("application/json", []byte(`{"kind":"Status","metadata":null,"status":"Success","details":null}`))
	if !a.IsStatus || a.UID != "" {
		t.Errorf("a status: %+v", a)
	}
}

// TestMetadataAlone reads objects that end with their metadata.
func TestMetadataAlone(t *testing.T) {
	only := &metav1.PartialObjectMetadata{ObjectMeta: randomPod(3).ObjectMeta}
	only.SetGroupVersionKind(metav1.SchemeGroupVersion.WithKind("PartialObjectMetadata"))
	for media, encode := range encodings {
		data, err := encode(only)
		if err != nil {
			t.Fatal(err)
		}
		a := Parse(media, data)
		if !a.IsObject() {
			t.Fatalf("%s: not understood: %q", media, data)
		}
		check(t, &a.Object, &only.ObjectMeta)
	}
}

// TestNotUnderstood reads what is neither an object of the server, nor a status, nor a list.
func TestNotUnderstood(t *testing.T) {
	for _, text := range []string{
		`{"kind":"Pod","metadata":{"name":"a"}}`, `{"kind":"Pod","metadata":{"uid":"u"}}`,
		`{"kind":"Pod"}`, `{}`, `[]`, ``, `"x"`,
		`{"metadata":{"uid":"u","resourceVersion":"5"`, `{"metadata":{"uid":"u","resourceVersion":"5","name":"}`,
		`{"kind":"Status","status":"Success"`, `{"items":[{}]`,
	} {
		for media := range encodings {
			if a := Parse(media, []byte(text)); a.Understood() {
				t.Errorf("%s as %s: %+v", text, media, a)
			}
		}
	}
	if a := Parse("application/json", []byte(`{"kind":"Status","details":7,"reason":7}`)); !a.IsStatus || a.UID != "" {
		t.Errorf("a status without a status: %+v", a)
	}
	if a := Parse("application/json", []byte(`{"status":"Failure","reason":"R"}`)); !a.IsStatus || a.Reason != "R" {
		t.Errorf("a status without a kind: %+v", a)
	}
}

func TestLists(t *testing.T) {
	list := &corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: "77", Continue: "more"}}
	list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("PodList"))
	for seed := range uint64(5) {
		list.Items = append(list.Items, *randomPod(seed))
	}
	for media, encode := range encodings {
		data, err := encode(list)
		if err != nil {
			t.Fatal(err)
		}
		a := Parse(media, data)
		if !a.IsList || a.IsObject() || a.Continue != "more" || len(a.Items) != len(list.Items) {
			t.Fatalf("%s: %+v", media, a)
		}
		for i := range a.Items {
			check(t, &a.Items[i], &list.Items[i].ObjectMeta)
		}
		if cut := Parse(media, data[:len(data)-10]); cut.Understood() {
			t.Errorf("%s: part of a list is understood: %+v", media, cut)
		}
	}
}

func TestStatus(t *testing.T) {
	status := &metav1.Status{
		Status:  metav1.StatusSuccess,
		Reason:  "R",
		Details: &metav1.StatusDetails{Name: "a", UID: "u"},
	}
	status.SetGroupVersionKind(metav1.Unversioned.WithKind("Status"))
	for media, encode := range encodings {
		data, err := encode(status)
		if err != nil {
			t.Fatal(err)
		}
		if a := Parse(media, data); !a.IsStatus || a.UID != "u" || a.Reason != "R" || a.IsObject() || a.IsList {
			t.Errorf("%s: %+v", media, a)
		}
	}
}

func TestNamespaces(t *testing.T) {
	now := metav1.Now()
	ns := &corev1.Namespace{
		ObjectMeta: metav1.ObjectMeta{Name: "a", UID: "u", ResourceVersion: "5", DeletionTimestamp: &now},
		Spec:       corev1.NamespaceSpec{Finalizers: []corev1.FinalizerName{"kubernetes", "other"}},
	}
	ns.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	for media, encode := range encodings {
		data, err := encode(ns)
		if err != nil {
			t.Fatal(err)
		}
		if a := Parse(media, data); !a.IsObject() || a.Object.SpecFinalizers != 2 {
			t.Errorf("%s: %+v", media, a)
		}
	}
}

// TestOptions encodes options as clients do, alone and in an eviction.
func TestOptions(t *testing.T) {
	zero, thirty := int64(0), int64(30)
	for _, options := range []metav1.DeleteOptions{
		{}, {DryRun: []string{"All"}}, {GracePeriodSeconds: &zero}, {GracePeriodSeconds: &thirty},
		{DryRun: []string{"All"}, GracePeriodSeconds: &zero, Preconditions: metav1.NewUIDPreconditions("u")},
	} {
		want := Options{
			DryRun: options.DryRun != nil, Force: options.GracePeriodSeconds != nil && *options.GracePeriodSeconds == 0,
		}
		eviction := &policyv1.Eviction{
			ObjectMeta:    metav1.ObjectMeta{Name: "a", Namespace: "b", Labels: map[string]string{"a": "b"}},
			DeleteOptions: &options,
		}
		eviction.SetGroupVersionKind(policyv1.SchemeGroupVersion.WithKind("Eviction"))
		alone := options.DeepCopy()
		alone.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("DeleteOptions"))
		for media, encode := range encodings {
			for _, sent := range []runtime.Object{alone, eviction} {
				data, err := encode(sent)
				if err != nil {
					t.Fatal(err)
				}
				if got := parseOptions(media, data); got != want {
					t.Errorf("%T in %s: got %+v, want %+v", sent, media, got, want)
				}
			}
		}
	}
	none := &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: "a"}}
	none.SetGroupVersionKind(policyv1.SchemeGroupVersion.WithKind("Eviction"))
	for media, encode := range encodings {
		data, err := encode(none)
		if err != nil {
			t.Fatal(err)
		}
		if got := parseOptions(media, data); got != (Options{}) {
			t.Errorf("an eviction without options in %s: %+v", media, got)
		}
		if got := parseOptions(media, data[:3]); got != (Options{}) {
			t.Errorf("what is no message in %s: %+v", media, got)
		}
	}
}

// TestLabelsAnywhere reads labels that are first, last, or have other fields between them.
func TestLabelsAnywhere(t *testing.T) {
	one, two := "\x5a\x06\x0a\x01a\x12\x01x", "\x5a\x06\x0a\x01b\x12\x01y" // fields 11
	rest := "\x2a\x01u\x32\x015"                                           // uid and version
	for _, text := range []string{one + two + rest, rest + one + two, one + rest + two} {
		var o Object
		metadataMessage([]byte(text), &o)
		check(t, &o, &metav1.ObjectMeta{UID: "u", ResourceVersion: "5", Labels: map[string]string{"a": "x", "b": "y"}})
	}
}

// TestBody reads large and broken bodies in pieces.
func TestBody(t *testing.T) {
	pod := randomPod(1)
	pod.Annotations = map[string]string{}
	pod.Spec.Containers[0].Image = strings.Repeat("x", 10*maxHeld)
	data, _ := json.Marshal(pod)
	late, _ := json.Marshal(map[string]any{"a": pod.Spec.Containers[0].Image, "metadata": pod.ObjectMeta})
	for name, test := range map[string]struct {
		body       io.Reader
		understood bool
		at         int // from where the answer is known
	}{
		"large":                 {bytes.NewReader(data), true, 2 * usualHeld},
		"one byte at a time":    {iotest.OneByteReader(bytes.NewReader(data[:len(data)/5])), true, 2 * usualHeld},
		"the metadata is late":  {bytes.NewReader(late), false, 2 * maxHeld},
		"broken":                {io.MultiReader(bytes.NewReader(data[:100]), iotest.ErrReader(errors.New("broken"))), false, len(data)},
		"broken after metadata": {io.MultiReader(bytes.NewReader(data[:2*usualHeld]), iotest.ErrReader(errors.New("broken"))), true, len(data)},
		"empty":                 {strings.NewReader(""), false, 1},
	} {
		t.Run(name, func(t *testing.T) {
			calls, read := 0, 0
			var body Body
			body.Init(io.NopCloser(test.body), "application/json", receiver(func(a *Answer) {
				calls++
				if a.Understood() != test.understood || read > test.at {
					t.Errorf("understood %v after %d bytes", a.Understood(), read)
				}
			}))
			buf := make([]byte, 1000)
			for {
				n, err := body.Read(buf)
				if read += n; err != nil {
					break
				}
			}
			if calls != 1 {
				t.Errorf("%d calls before the body is closed", calls)
			}
			body.Close()
			if calls != 1 {
				t.Errorf("%d calls", calls)
			}
		})
	}
}

// TestCloseBeforeTheEnd closes bodies of which enough has been read, or not.
func TestCloseBeforeTheEnd(t *testing.T) {
	data, err := json.Marshal(randomPod(1))
	if err != nil {
		t.Fatal(err)
	}
	for read, understood := range map[int]bool{0: false, 20: false, len(data) - 1: true} {
		calls := 0
		var body Body
		body.Init(io.NopCloser(bytes.NewReader(data)), "application/json", receiver(func(a *Answer) {
			if calls++; a.Understood() != understood {
				t.Errorf("after %d bytes: understood: %v", read, a.Understood())
			}
		}))
		if n, err := io.ReadFull(&body, make([]byte, read)); n != read || err != nil {
			t.Fatal(n, err)
		}
		body.Close()
		body.Close()
		if calls != 1 {
			t.Errorf("after %d bytes: %d calls", read, calls)
		}
	}
}

// TestCloseWhileReading closes bodies on another goroutine, as one does to end a read.
func TestCloseWhileReading(t *testing.T) {
	data, err := json.Marshal(randomPod(1))
	if err != nil {
		t.Fatal(err)
	}
	for range 200 {
		var calls atomic.Int64
		var body Body
		body.Init(io.NopCloser(iotest.OneByteReader(bytes.NewReader(data))), "application/json",
			receiver(func(*Answer) { calls.Add(1) }))
		reading := make(chan struct{})
		var closing sync.WaitGroup
		closing.Go(func() {
			<-reading
			body.Close()
		})
		close(reading)
		_, _ = io.Copy(io.Discard, &body)
		closing.Wait()
		if n := calls.Load(); n != 1 {
			t.Fatalf("%d calls", n)
		}
	}
}

type receiver func(*Answer)

func (r receiver) Finished(a *Answer) { r(a) }

// FuzzParse reads what is not an answer.
func FuzzParse(f *testing.F) {
	for media, encode := range encodings {
		data, _ := encode(randomPod(1))
		f.Add(media, data)
	}
	f.Fuzz(func(t *testing.T, media string, data []byte) {
		a := Parse(media, data)
		a.Object.GetLabels()
		parseOptions(media, data)
		if media != "application/json" || !a.IsObject() || !json.Valid(data) {
			return
		}
		var want struct {
			Metadata struct{ UID, ResourceVersion string }
		}
		if err := json.Unmarshal(data, &want); err == nil && strings.Count(string(data), "etadata") == 1 &&
			!strings.Contains(string(data), `\u`) &&
			strings.Count(strings.ToLower(string(data)), "uid") == 1 &&
			want.Metadata.UID != string(a.Object.UID) {
			t.Errorf("uid %q, want %q", a.Object.UID, want.Metadata.UID)
		}
	})
}

// BenchmarkObject is an update's answer.
func BenchmarkObject(b *testing.B) {
	pod := randomPod(3)
	pod.DeletionTimestamp, pod.DeletionGracePeriodSeconds, pod.Finalizers = nil, nil, nil
	for media, encode := range encodings {
		data, _ := encode(pod)
		b.Run(media, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				a := Parse(media, data)
				if !a.IsObject() {
					b.Fatal("not understood")
				}
			}
		})
	}
}
