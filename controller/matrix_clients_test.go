package controller_test

import (
	"context"
	"encoding/json"
	"io"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	appsapply "k8s.io/client-go/applyconfigurations/apps/v1"
	"k8s.io/client-go/dynamic"
	typed "k8s.io/client-go/kubernetes/typed/apps/v1"
	typedcore "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/scale"
)

var (
	deployments = appsv1.SchemeGroupVersion.WithResource("deployments")
	pods        = corev1.SchemeGroupVersion.WithResource("pods")
	mergePatch  = []byte(`{"metadata":{"annotations":{"changed":"yes"}}}`)
	finalPatch  = []byte(`{"metadata":{"finalizers":null}}`)
	statusPatch = []byte(`{"status":{"observedGeneration":7}}`)
	scalePatch  = []byte(`{"spec":{"replicas":5}}`)
	byLabel     = metav1.ListOptions{LabelSelector: "app=x"}
	dryRun      = []string{metav1.DryRunAll}
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
		"create": func(ctx context.Context) error {
			return done(c.Create(ctx, deployment("new"), metav1.CreateOptions{}))
		},
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
		"delete": func(ctx context.Context) error { return c.Delete(ctx, "a", metav1.DeleteOptions{}) },
		"collection": func(ctx context.Context) error {
			return c.DeleteCollection(ctx, metav1.DeleteOptions{}, byLabel)
		},
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
		"dry run": func(ctx context.Context) error {
			must(c.Create(ctx, deployment("new"), metav1.CreateOptions{DryRun: dryRun}))
			must(c.Patch(ctx, "a", types.MergePatchType, mergePatch, metav1.PatchOptions{DryRun: dryRun}))
			must(0, c.DeleteCollection(ctx, metav1.DeleteOptions{DryRun: dryRun}, byLabel))
			return c.Delete(ctx, "a", metav1.DeleteOptions{DryRun: dryRun})
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
			status := appsapply.DeploymentStatus().WithReplicas(7)
			return done(c.ApplyStatus(ctx, appsapply.Deployment("a", "default").WithStatus(status), options))
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
			return done(c.Patch(ctx, "a", types.MergePatchType, scalePatch, metav1.PatchOptions{}, "scale"))
		},
		"delete": func(ctx context.Context) error { return c.Delete(ctx, "a", metav1.DeleteOptions{}) },
		"collection": func(ctx context.Context) error {
			return c.DeleteCollection(ctx, metav1.DeleteOptions{}, byLabel)
		},
		"finalizer": func(ctx context.Context) error {
			return done(c.Patch(ctx, "dying", types.MergePatchType, finalPatch, metav1.PatchOptions{}))
		},
		"apply": func(ctx context.Context) error {
			d := asUnstructured(&metav1.PartialObjectMetadata{TypeMeta: deployment("").TypeMeta})
			d.SetName("a")
			d.SetLabels(map[string]string{"applied": "yes"})
			return done(c.Apply(ctx, "a", d, metav1.ApplyOptions{FieldManager: "test", Force: true}))
		},
		"dry run": func(ctx context.Context) error {
			must(c.Create(ctx, asUnstructured(deployment("new")), metav1.CreateOptions{DryRun: dryRun}))
			return c.Delete(ctx, "a", metav1.DeleteOptions{DryRun: dryRun})
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
		"delete": func(ctx context.Context) error { return c.Delete(ctx, "a", metav1.DeleteOptions{}) },
		"collection": func(ctx context.Context) error {
			return c.DeleteCollection(ctx, metav1.DeleteOptions{}, byLabel)
		},
		"finalizer": func(ctx context.Context) error {
			return done(c.Patch(ctx, "dying", types.MergePatchType, finalPatch, metav1.PatchOptions{}))
		},
	}
}

// scaleKind says that all resources are scaled with autoscaling/v1.
type scaleKind struct{}

func (scaleKind) ScaleForResource(schema.GroupVersionResource) (schema.GroupVersionKind, error) {
	return autoscalingv1.SchemeGroupVersion.WithKind("Scale"), nil
}

func scaleVerbs(config *rest.Config) verbs {
	mapper := meta.NewDefaultRESTMapper([]schema.GroupVersion{appsv1.SchemeGroupVersion})
	mapper.Add(appsv1.SchemeGroupVersion.WithKind("Deployment"), meta.RESTScopeNamespace)
	c := must(scale.NewForConfig(config, mapper, dynamic.LegacyAPIPathResolverFunc, scaleKind{})).Scales("default")
	return verbs{
		"update": func(ctx context.Context) error {
			s := must(c.Get(ctx, deployments.GroupResource(), "a", metav1.GetOptions{}))
			s.Spec.Replicas = 5
			return done(c.Update(ctx, deployments.GroupResource(), s, metav1.UpdateOptions{}))
		},
		"patch": func(ctx context.Context) error {
			return done(c.Patch(ctx, deployments, "a", types.MergePatchType, scalePatch, metav1.PatchOptions{}))
		},
		"dry run": func(ctx context.Context) error {
			opts := metav1.PatchOptions{DryRun: dryRun}
			return done(c.Patch(ctx, deployments, "a", types.MergePatchType, scalePatch, opts))
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
				ObjectMeta: metav1.ObjectMeta{Name: "a", Namespace: "default"},
				Spec:       autoscalingv1.ScaleSpec{Replicas: 5},
			}
			return in(c.Put()).Name("a").SubResource("scale").Body(must(json.Marshal(s))).Do(ctx).Error()
		},
		"delete": func(ctx context.Context) error { return in(c.Delete()).Name("a").Do(ctx).Error() },
		"collection": func(ctx context.Context) error {
			return in(c.Delete()).Param("labelSelector", "app=x").Do(ctx).Error()
		},
		"finalizer": func(ctx context.Context) error {
			return in(c.Patch(types.MergePatchType)).Name("dying").Body(finalPatch).Do(ctx).Error()
		},
		"dry run": func(ctx context.Context) error {
			patch := in(c.Patch(types.MergePatchType)).Name("a").Param("dryRun", "All").Body(mergePatch)
			must(0, patch.Do(ctx).Error())
			return in(c.Delete()).Name("a").Body([]byte(`{"dryRun":["All"]}`)).Do(ctx).Error()
		},
	}
}

// iotest reads a few bytes at a time.
type iotest struct{ io.Reader }

func (r iotest) Read(p []byte) (int, error) { return r.Reader.Read(p[:min(len(p), 7)]) }

// clients have the writes to Deployments by each client of a config.
var clients = map[string]func(*rest.Config) verbs{
	"json": func(c *rest.Config) verbs { return typedVerbs(typed.NewForConfigOrDie(c).Deployments("default")) },
	"protobuf": func(c *rest.Config) verbs {
		return typedVerbs(typed.NewForConfigOrDie(asProtobuf(c)).Deployments("default"))
	},
	"cbor": func(c *rest.Config) verbs {
		return typedVerbs(typed.NewForConfigOrDie(asCBOR(c)).Deployments("default"))
	},
	"apply":   func(c *rest.Config) verbs { return applyVerbs(typed.NewForConfigOrDie(c).Deployments("default")) },
	"dynamic": newDynamicVerbs,
	// What the dynamic client sends and accepts depends on the feature gates.
	"cbor, dynamic": newDynamicVerbs,
	"metadata": func(c *rest.Config) verbs {
		return metadataVerbs(metadata.NewForConfigOrDie(c).Resource(deployments).Namespace("default"))
	},
	"scale": scaleVerbs,
	"raw":   func(c *rest.Config) verbs { return rawVerbs(typed.NewForConfigOrDie(c).RESTClient()) },
}

// podClients have the writes to pods that other resources do not have.
var podClients = map[string]func(*rest.Config) verbs{
	"json": func(c *rest.Config) verbs { return podVerbs(typedcore.NewForConfigOrDie(c).Pods("default")) },
	"protobuf": func(c *rest.Config) verbs {
		return podVerbs(typedcore.NewForConfigOrDie(asProtobuf(c)).Pods("default"))
	},
	"cbor": func(c *rest.Config) verbs { return podVerbs(typedcore.NewForConfigOrDie(asCBOR(c)).Pods("default")) },
	"dynamic": func(c *rest.Config) verbs {
		return dynamicPodVerbs(dynamic.NewForConfigOrDie(c).Resource(pods).Namespace("default"))
	},
}

func newDynamicVerbs(c *rest.Config) verbs {
	return dynamicVerbs(dynamic.NewForConfigOrDie(c).Resource(deployments).Namespace("default"))
}

func asProtobuf(c *rest.Config) *rest.Config { return withContent(c, runtime.ContentTypeProtobuf) }

func asCBOR(c *rest.Config) *rest.Config { return withContent(c, runtime.ContentTypeCBOR) }

func withContent(c *rest.Config, media string) *rest.Config {
	c = rest.CopyConfig(c)
	c.ContentType, c.AcceptContentTypes = media, media
	return c
}

// binding and eviction are what is sent to the subresources of pods: of "a", which has no node, and "bound".
func binding() *corev1.Binding {
	return &corev1.Binding{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Binding"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "a"},
		Target:     corev1.ObjectReference{Kind: "Node", Name: "n"},
	}
}

func eviction(options metav1.DeleteOptions) *policyv1.Eviction {
	return &policyv1.Eviction{
		TypeMeta:   metav1.TypeMeta{APIVersion: "policy/v1", Kind: "Eviction"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "bound"}, DeleteOptions: &options,
	}
}

func podVerbs(c typedcore.PodInterface) verbs {
	return verbs{
		"bind":   func(ctx context.Context) error { return c.Bind(ctx, binding(), metav1.CreateOptions{}) },
		"evict":  func(ctx context.Context) error { return c.EvictV1(ctx, eviction(metav1.DeleteOptions{})) },
		"delete": func(ctx context.Context) error { return c.Delete(ctx, "bound", metav1.DeleteOptions{}) },
		"force": func(ctx context.Context) error {
			return c.Delete(ctx, "bound", *metav1.NewDeleteOptions(0))
		},
		"dry run": func(ctx context.Context) error {
			return c.EvictV1(ctx, eviction(metav1.DeleteOptions{DryRun: dryRun}))
		},
	}
}

func dynamicPodVerbs(c dynamic.ResourceInterface) verbs {
	return verbs{
		"bind": func(ctx context.Context) error {
			return done(c.Create(ctx, asUnstructured(binding()), metav1.CreateOptions{}, "binding"))
		},
		"evict": func(ctx context.Context) error {
			evicted := asUnstructured(eviction(metav1.DeleteOptions{}))
			return done(c.Create(ctx, evicted, metav1.CreateOptions{}, "eviction"))
		},
		"dry run": func(ctx context.Context) error {
			dry := asUnstructured(eviction(metav1.DeleteOptions{DryRun: dryRun}))
			return done(c.Create(ctx, dry, metav1.CreateOptions{}, "eviction"))
		},
	}
}
