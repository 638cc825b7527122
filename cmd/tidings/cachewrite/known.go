package cachewrite

// known is what the analysis knows of functions whose code it may not see.
type known struct {
	writes int // the argument that it writes to, the receiver being the first; -1: none
	depth  int // pointers between that argument and what is written
	result loads
	from   int // the argument that the first result refers to
}

// loads says how a result refers to an argument: the number of pointers between them, or one of these.
type loads int

const (
	noResult loads = -1 // not at all
	copied   loads = -2 // a new slice or map of the same elements
)

// knownFunctions are functions by their full names.
var knownFunctions = map[string]known{}

func knows(k known, names ...string) {
	for _, name := range names {
		knownFunctions[name] = k
	}
}

const (
	metav1Path       = "k8s.io/apimachinery/pkg/apis/meta/v1"
	unstructuredPath = metav1Path + "/unstructured"
	controllerutil   = "sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	clientPath       = "sigs.k8s.io/controller-runtime/pkg/client"
)

func init() {
	writer := func(argument, depth int) known { return known{writes: argument, depth: depth, result: noResult} }
	reader := func(result loads) known { return known{writes: -1, result: result} }
	for _, field := range []string{
		"Name", "GenerateName", "Namespace", "UID", "ResourceVersion", "Generation", "SelfLink", "CreationTimestamp", "DeletionTimestamp",
		"DeletionGracePeriodSeconds", "Labels", "Annotations", "Finalizers", "OwnerReferences", "ManagedFields", "GroupVersionKind", "Kind",
		"APIVersion", "UnstructuredContent",
	} {
		knows(writer(0, 0), "(*"+metav1Path+".ObjectMeta).Set"+field, "("+metav1Path+".Object).Set"+field, "("+metav1Path+".Type).Set"+field,
			"(*"+metav1Path+".TypeMeta).Set"+field, "(k8s.io/apimachinery/pkg/runtime/schema.ObjectKind).Set"+field,
			"(*"+unstructuredPath+".Unstructured).Set"+field)
	}
	for _, field := range []string{"Labels", "Annotations", "Finalizers", "OwnerReferences", "ManagedFields", "DeletionTimestamp"} {
		knows(reader(1), "(*"+metav1Path+".ObjectMeta).Get"+field, "("+metav1Path+".Object).Get"+field)
	}
	knows(reader(1), "(*"+unstructuredPath+".Unstructured).UnstructuredContent", "(k8s.io/apimachinery/pkg/runtime.Unstructured).UnstructuredContent",
		unstructuredPath+".NestedFieldNoCopy", metav1Path+".GetControllerOfNoCopy")
	knows(reader(0), "k8s.io/apimachinery/pkg/api/meta.Accessor", "k8s.io/apimachinery/pkg/api/meta.FindStatusCondition",
		"(*"+metav1Path+".ObjectMeta).GetObjectMeta", "("+metav1Path+".ObjectMetaAccessor).GetObjectMeta")
	knows(writer(0, 0), unstructuredPath+".SetNestedField", unstructuredPath+".SetNestedMap", unstructuredPath+".SetNestedSlice",
		unstructuredPath+".SetNestedStringMap", unstructuredPath+".SetNestedStringSlice", unstructuredPath+".RemoveNestedField",
		"k8s.io/apimachinery/pkg/api/meta.RemoveStatusCondition", controllerutil+".AddFinalizer", controllerutil+".RemoveFinalizer")
	knows(writer(0, 1), "k8s.io/apimachinery/pkg/api/meta.SetStatusCondition")
	knows(writer(1, 0), controllerutil+".SetControllerReference", controllerutil+".SetOwnerReference", controllerutil+".RemoveControllerReference",
		controllerutil+".RemoveOwnerReference", "encoding/json.Unmarshal")
	knows(writer(0, 0), metav1Path+".SetMetaDataLabel", metav1Path+".SetMetaDataAnnotation")
	for _, name := range []string{"Update", "Patch", "Create"} { // the answer is decoded into the object
		knows(writer(2, 0), "("+clientPath+".Writer)."+name, "("+clientPath+".SubResourceWriter)."+name)
	}
	knows(writer(0, 0), "sort.Slice", "sort.SliceStable", "sort.Sort", "sort.Stable", "sort.Strings", "sort.Ints", "slices.Sort",
		"slices.SortFunc", "slices.SortStableFunc", "slices.Reverse", "maps.Copy", "maps.DeleteFunc")
	knows(known{result: 0}, "slices.Delete", "slices.DeleteFunc", "slices.Compact", "slices.CompactFunc", "slices.Insert", "slices.Replace")
	knows(reader(copied), "slices.Clone", "maps.Clone", "slices.Clip")
}
