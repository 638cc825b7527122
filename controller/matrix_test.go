package controller_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	appsapply "k8s.io/client-go/applyconfigurations/apps/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	typed "k8s.io/client-go/kubernetes/typed/apps/v1"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	"github.com/tidings/tidings"
)

var (
	deployments = appsv1.SchemeGroupVersion.WithResource("deployments")
	mergePatch  = []byte(`{"metadata":{"annotations":{"changed":"yes"}}}`)
	finalPatch  = []byte(`{"metadata":{"finalizers":null}}`)
	statusPatch = []byte(`{"status":{"observedGeneration":7}}`)
	byLabel     = metav1.ListOptions{LabelSelector: "app=x"}
)

// deployment returns a Deployment. The server of the matrix test has "a", and "dying", which has a finalizer and is
// being deleted.
func deployment(name string) *appsv1.Deployment {
	labels := map[string]string{"app": "x"}
	return &appsv1.Deployment{
		TypeMeta:   metav1.TypeMeta{APIVersion: "apps/v1", Kind: "Deployment"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, Labels: labels},
		Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}},
			},
		},
	}
}

func generated() *appsv1.Deployment {
	d := deployment("")
	d.GenerateName = "child-"
	return d
}

func asUnstructured(o any) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: must(runtime.DefaultUnstructuredConverter.ToUnstructured(o))}
}

// verbs are the writes of one client, by name.
type verbs map[string]func(ctx context.Context) error

// done makes a write without its answer.
func done[T any](_ T, err error) error { return err }

func typedVerbs(c typed.DeploymentInterface) verbs {
	return verbs{
		"create":   func(ctx context.Context) error { return done(c.Create(ctx, deployment("new"), metav1.CreateOptions{})) },
		"generate": func(ctx context.Context) error { return done(c.Create(ctx, generated(), metav1.CreateOptions{})) },
		"update": func(ctx context.Context) error {
			d := must(c.Get(ctx, "a", metav1.GetOptions{}))
			d.Labels["more"] = "yes"
			return done(c.Update(ctx, d, metav1.UpdateOptions{}))
		},
		"nothing": func(ctx context.Context) error {
			return done(c.Update(ctx, must(c.Get(ctx, "a", metav1.GetOptions{})), metav1.UpdateOptions{}))
		},
		"status": func(ctx context.Context) error {
			d := must(c.Get(ctx, "a", metav1.GetOptions{}))
			d.Status.Replicas = 7
			return done(c.UpdateStatus(ctx, d, metav1.UpdateOptions{}))
		},
		"patch": func(ctx context.Context) error {
			return done(c.Patch(ctx, "a", types.StrategicMergePatchType, mergePatch, metav1.PatchOptions{}))
		},
		"scale": func(ctx context.Context) error {
			s := must(c.GetScale(ctx, "a", metav1.GetOptions{}))
			s.Spec.Replicas = 5
			return done(c.UpdateScale(ctx, "a", s, metav1.UpdateOptions{}))
		},
		"delete":     func(ctx context.Context) error { return c.Delete(ctx, "a", metav1.DeleteOptions{}) },
		"collection": func(ctx context.Context) error { return c.DeleteCollection(ctx, metav1.DeleteOptions{}, byLabel) },
		"foreground": func(ctx context.Context) error {
			foreground := metav1.DeletePropagationForeground
			return c.Delete(ctx, "a", metav1.DeleteOptions{PropagationPolicy: &foreground})
		},
		"finalizer": func(ctx context.Context) error {
			d := must(c.Get(ctx, "dying", metav1.GetOptions{}))
			d.Finalizers = nil
			return done(c.Update(ctx, d, metav1.UpdateOptions{}))
		},
		"replace": func(ctx context.Context) error {
			if err := c.Delete(ctx, "a", metav1.DeleteOptions{}); err != nil {
				return err
			}
			return done(c.Create(ctx, deployment("a"), metav1.CreateOptions{}))
		},
	}
}

func applyVerbs(c typed.DeploymentInterface) verbs {
	options := metav1.ApplyOptions{FieldManager: "test", Force: true}
	apply := func(name string) *appsapply.DeploymentApplyConfiguration {
		return appsapply.Deployment(name, "default").WithLabels(map[string]string{"applied": "yes"})
	}
	return verbs{
		"patch": func(ctx context.Context) error { return done(c.Apply(ctx, apply("a"), options)) },
		"status": func(ctx context.Context) error {
			return done(c.ApplyStatus(ctx, appsapply.Deployment("a", "default").WithStatus(appsapply.DeploymentStatus().WithReplicas(7)), options))
		},
		"nothing": func(ctx context.Context) error {
			if err := done(c.Apply(ctx, apply("a"), options)); err != nil {
				return err
			}
			return done(c.Apply(ctx, apply("a"), options))
		},
	}
}

func dynamicVerbs(c dynamic.ResourceInterface) verbs {
	return verbs{
		"create": func(ctx context.Context) error {
			return done(c.Create(ctx, asUnstructured(deployment("new")), metav1.CreateOptions{}))
		},
		"generate": func(ctx context.Context) error {
			return done(c.Create(ctx, asUnstructured(generated()), metav1.CreateOptions{}))
		},
		"update": func(ctx context.Context) error {
			d := must(c.Get(ctx, "a", metav1.GetOptions{}))
			d.SetLabels(map[string]string{"more": "yes"})
			return done(c.Update(ctx, d, metav1.UpdateOptions{}))
		},
		"status": func(ctx context.Context) error {
			return done(c.Patch(ctx, "a", types.MergePatchType, statusPatch, metav1.PatchOptions{}, "status"))
		},
		"patch": func(ctx context.Context) error {
			return done(c.Patch(ctx, "a", types.MergePatchType, mergePatch, metav1.PatchOptions{}))
		},
		"scale": func(ctx context.Context) error {
			return done(c.Patch(ctx, "a", types.MergePatchType, []byte(`{"spec":{"replicas":5}}`), metav1.PatchOptions{}, "scale"))
		},
		"delete":     func(ctx context.Context) error { return c.Delete(ctx, "a", metav1.DeleteOptions{}) },
		"collection": func(ctx context.Context) error { return c.DeleteCollection(ctx, metav1.DeleteOptions{}, byLabel) },
		"finalizer": func(ctx context.Context) error {
			return done(c.Patch(ctx, "dying", types.MergePatchType, finalPatch, metav1.PatchOptions{}))
		},
	}
}

func metadataVerbs(c metadata.ResourceInterface) verbs {
	return verbs{
		"patch": func(ctx context.Context) error {
			return done(c.Patch(ctx, "a", types.MergePatchType, mergePatch, metav1.PatchOptions{}))
		},
		"status": func(ctx context.Context) error {
			return done(c.Patch(ctx, "a", types.MergePatchType, statusPatch, metav1.PatchOptions{}, "status"))
		},
		"delete":     func(ctx context.Context) error { return c.Delete(ctx, "a", metav1.DeleteOptions{}) },
		"collection": func(ctx context.Context) error { return c.DeleteCollection(ctx, metav1.DeleteOptions{}, byLabel) },
		"finalizer": func(ctx context.Context) error {
			return done(c.Patch(ctx, "dying", types.MergePatchType, finalPatch, metav1.PatchOptions{}))
		},
	}
}

// rawVerbs use a REST client without codecs.
func rawVerbs(c rest.Interface) verbs {
	in := func(r *rest.Request) *rest.Request { return r.Namespace("default").Resource("deployments") }
	return verbs{
		"create": func(ctx context.Context) error {
			return done(in(c.Post()).Body(must(json.Marshal(deployment("new")))).Do(ctx).Raw())
		},
		"generate": func(ctx context.Context) error {
			return done(in(c.Post()).Body(must(json.Marshal(generated()))).Do(ctx).Raw())
		},
		"update": func(ctx context.Context) error { // the answer is read piece by piece
			d := deployment("a")
			d.Labels["more"] = "yes"
			stream, err := in(c.Put()).Name("a").Body(must(json.Marshal(d))).Stream(ctx)
			if err != nil {
				return err
			}
			defer stream.Close()
			return json.NewDecoder(iotest{stream}).Decode(d)
		},
		"patch": func(ctx context.Context) error {
			return in(c.Patch(types.MergePatchType)).Name("a").Body(mergePatch).Do(ctx).Error()
		},
		"scale": func(ctx context.Context) error {
			s := autoscalingv1.Scale{
				TypeMeta:   metav1.TypeMeta{APIVersion: "autoscaling/v1", Kind: "Scale"},
				ObjectMeta: metav1.ObjectMeta{Name: "a", Namespace: "default"}, Spec: autoscalingv1.ScaleSpec{Replicas: 5},
			}
			return in(c.Put()).Name("a").SubResource("scale").Body(must(json.Marshal(s))).Do(ctx).Error()
		},
		"delete":     func(ctx context.Context) error { return in(c.Delete()).Name("a").Do(ctx).Error() },
		"collection": func(ctx context.Context) error { return in(c.Delete()).Param("labelSelector", "app=x").Do(ctx).Error() },
		"finalizer": func(ctx context.Context) error {
			return in(c.Patch(types.MergePatchType)).Name("dying").Body(finalPatch).Do(ctx).Error()
		},
	}
}

// iotest reads a few bytes at a time.
type iotest struct{ io.Reader }

func (r iotest) Read(p []byte) (int, error) { return r.Reader.Read(p[:min(len(p), 7)]) }

// clientsOf returns the writes of each client of the config.
func clientsOf(config *rest.Config) map[string]verbs {
	protobuf := rest.CopyConfig(config)
	protobuf.ContentType, protobuf.AcceptContentTypes = runtime.ContentTypeProtobuf, runtime.ContentTypeProtobuf
	json := kubernetes.NewForConfigOrDie(config)
	return map[string]verbs{
		"json":     typedVerbs(json.AppsV1().Deployments("default")),
		"protobuf": typedVerbs(kubernetes.NewForConfigOrDie(protobuf).AppsV1().Deployments("default")),
		"apply":    applyVerbs(json.AppsV1().Deployments("default")),
		"dynamic":  dynamicVerbs(dynamic.NewForConfigOrDie(config).Resource(deployments).Namespace("default")),
		"metadata": metadataVerbs(metadata.NewForConfigOrDie(config).Resource(deployments).Namespace("default")),
		"raw":      rawVerbs(json.AppsV1().RESTClient()),
	}
}

// TestWritesOfEveryClient makes each write with each client, in reconciles of a controller whose cache is late. The
// next reconcile of the key must see what the server had after the write, and those of other keys must not wait.
func TestWritesOfEveryClient(t *testing.T) {
	testMatrix[*appsv1.Deployment](t, "typed")
	testMatrix[*unstructured.Unstructured](t, "unstructured")
	testMatrix[*metav1.PartialObjectMetadata](t, "metadata")
}

func testMatrix[T tidings.Object](t *testing.T, form string) {
	modes := map[string][]string{"all": nil, "one": {"default"}, "several": {"other", "default"}}
	clients := clientsOf(&rest.Config{})
	for _, mode := range slices.Sorted(maps.Keys(modes)) {
		for _, client := range slices.Sorted(maps.Keys(clients)) {
			for _, verb := range slices.Sorted(maps.Keys(clients[client])) {
				t.Run(fmt.Sprint(form, "/", mode, "/", client, "/", verb), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						testVerb[T](t, tidings.Scope{Resource: deployments, Namespaces: modes[mode]}, client, verb)
					})
				})
			}
		}
	}
}

func testVerb[T tidings.Object](t *testing.T, scope tidings.Scope, client, verb string) {
	objects := []tidings.Object{deployment("a"), dying(deployment(""), "example.com/x")}
	objects[1].SetName("dying")
	var truth map[tidings.Key]string
	w := newLateWorld(t, scope, objects, func(ctx context.Context, w *lateWorld[T]) {
		if err := clientsOf(w.config)[client][verb](ctx); err != nil {
			t.Errorf("%s: %v", verb, err)
		}
		truth = w.server.Versions(deployments)
	})
	var held map[tidings.Key]string
	w.look = func() {
		held = map[tidings.Key]string{}
		for key, o := range w.cache.Snapshot().All() {
			held[key] = o.GetResourceVersion()
		}
	}
	waited := w.twice()
	if !maps.Equal(held, truth) {
		t.Errorf("reconciled with %v, but the server had %v", held, truth)
	}
	st := w.controller.Stats()
	if waited == 0 != (verb == "nothing" && client != "apply") || waited > late+time.Second || st.GateTimeouts+st.GateLookups != 0 {
		t.Errorf("waited for %v; %d waits, %d timeouts, %d look-ups", waited, st.GateWaits, st.GateTimeouts, st.GateLookups)
	}
}
