package clientgo_test

import (
	"reflect"
	"slices"
	"testing"
	"testing/synctest"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/cache"

	"github.com/tidings/tidings"
	"github.com/tidings/tidings/clientgo"
	"github.com/tidings/tidings/tidingstest"
)

// probedKinds are kinds that not every supported client-go has, with their resources.
var probedKinds = map[schema.GroupVersionKind]string{
	{Group: "scheduling.k8s.io", Version: "v1alpha2", Kind: "Workload"}:                "workloads", // until 0.36
	{Group: "scheduling.k8s.io", Version: "v1alpha3", Kind: "Workload"}:                "workloads", // since 0.37, as all below
	{Group: "certificates.k8s.io", Version: "v1", Kind: "ClusterTrustBundle"}:          "clustertrustbundles",
	{Group: "resource.k8s.io", Version: "v1", Kind: "DeviceTaintRule"}:                 "devicetaintrules",
	{Group: "storagemigration.k8s.io", Version: "v1", Kind: "StorageVersionMigration"}: "storageversionmigrations",
	{Group: "lifecycle.k8s.io", Version: "v1alpha1", Kind: "Eviction"}:                 "evictions",
	{Group: "lifecycle.k8s.io", Version: "v1alpha1", Kind: "EvictionRequest"}:          "evictionrequests",
	{Group: "scheduling.k8s.io", Version: "v1alpha3", Kind: "PodGroup"}:                "podgroups",
	{Group: "scheduling.k8s.io", Version: "v1alpha3", Kind: "CompositePodGroup"}:       "compositepodgroups",
	{Group: "certificates.k8s.io", Version: "v1", Kind: "PodCertificateRequest"}:       "podcertificaterequests",
}

// eachProbedKind runs a test for each of the probed kinds that the client-go in use has.
func eachProbedKind(t *testing.T, test func(t *testing.T, resource schema.GroupVersionResource, obj tidings.Object)) {
	tested := 0
	for kind, plural := range probedKinds {
		resource := kind.GroupVersion().WithResource(plural)
		if _, err := informers.NewSharedInformerFactory(nil, 0).ForResource(resource); err != nil {
			continue
		}
		tested++
		t.Run(plural, func(t *testing.T) {
			created, err := scheme.Scheme.New(kind)
			must(t, err)
			obj := created.(tidings.Object)
			obj.SetName("one")
			obj.SetNamespace("a")
			synctest.Test(t, func(t *testing.T) { test(t, resource, obj) })
		})
	}
	if tested == 0 {
		t.Error("this client-go has none of the kinds")
	}
}

// Kinds that only some versions of client-go have get informers on our engine too, with their selectors and namespace.
func TestProbedKinds(t *testing.T) {
	eachProbedKind(t, func(t *testing.T, resource schema.GroupVersionResource, obj tidings.Object) {
		server := tidingstest.NewServer(t, tidingstest.ServerOptions{})
		server.Create(obj)
		for _, f := range []informers.SharedInformerFactory{
			clientgo.NewSharedInformerFactory(server.Config(), 0),
			clientgo.NewSharedInformerFactoryFromClient(kubernetes.NewForConfigOrDie(server.Config()), 0),
		} {
			generic, err := f.ForResource(resource)
			must(t, err)
			again, err := f.ForResource(resource)
			must(t, err)
			if again.Informer() != generic.Informer() {
				t.Error("a second call makes another informer")
			}
			runFactory(t, f)
			expectOne(t, generic, obj)
			native, _ := clientgo.Native(f)
			if status := native.Status(); len(status) != 1 || status[0].Objects != 1 || status[0].Resource != resource.GroupResource().String() {
				t.Errorf("on our engine: %+v", status)
			}
		}
	})
}

// Over a fake clientset they run on client-go's engine, and are started, waited for and stopped with the others.
func TestProbedKindsOverFake(t *testing.T) {
	eachProbedKind(t, func(t *testing.T, resource schema.GroupVersionResource, obj tidings.Object) {
		f := clientgo.NewSharedInformerFactoryFromClient(fake.NewClientset(obj), 0)
		pods := f.Core().V1().Pods().Informer()
		generic, err := f.ForResource(resource)
		must(t, err)
		generic.Informer()
		runFactory(t, f)
		if !pods.HasSynced() {
			t.Error("an informer of ours has not synced")
		}
		expectOne(t, generic, obj)
	})
}

// expectOne checks that an informer holds obj only, and that its lister finds it.
func expectOne(t *testing.T, generic informers.GenericInformer, obj tidings.Object) {
	t.Helper()
	held := generic.Informer().GetStore().List()
	if len(held) != 1 || reflect.TypeOf(held[0]) != reflect.TypeOf(obj) {
		t.Fatalf("the informer has %v", held)
	}
	got := held[0].(tidings.Object)
	if found, err := generic.Lister().ByNamespace(got.GetNamespace()).Get("one"); err != nil || found != held[0] {
		t.Errorf("the lister has %v, %v", found, err)
	}
}

// An API group that a newer client-go has, and this module not, has informers on client-go's
// engine. They are started, waited for and stopped with the others.
func TestNewerGroup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := tidingstest.NewServer(t, tidingstest.ServerOptions{})
		f := clientgo.NewSharedInformerFactory(server.Config(), 0)
		group := reflect.ValueOf(f).MethodByName("Lifecycle") // not imported, because "go mod tidy" would then want a newer client-go
		if !group.IsValid() {
			t.Skip("this client-go does not have the group lifecycle.k8s.io")
		}
		created, err := scheme.Scheme.New(schema.GroupVersionKind{Group: "lifecycle.k8s.io", Version: "v1alpha1", Kind: "Eviction"})
		must(t, err)
		obj := created.(tidings.Object)
		obj.SetName("one")
		obj.SetNamespace("a")
		server.Create(obj)
		version := group.Call(nil)[0].MethodByName("V1alpha1").Call(nil)[0]
		evictions := version.MethodByName("Evictions").Call(nil)[0].Interface().(interface {
			Informer() cache.SharedIndexInformer
		})
		inf := evictions.Informer()
		runFactory(t, f)
		if got := keysOf(t, inf.GetStore().List()); !slices.Equal(got, []string{"a/one"}) {
			t.Errorf("the informer has %v", got)
		}
		if native, _ := clientgo.Native(f); len(native.Status()) != 0 {
			t.Errorf("on our engine: %+v", native.Status())
		}
	})
}
