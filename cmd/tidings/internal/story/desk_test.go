package story

import (
	"cmp"
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tidings/tidings/cmd/tidings/internal/news"
	"github.com/tidings/tidings/cmd/tidings/internal/resources"
)

var (
	podKind    = resource("", "pods", "Pod")
	eventKind  = resource("", "events", "Event")
	configMaps = resource("", "configmaps", "ConfigMap")
	deploys    = resource("apps", "deployments", "Deployment")
	sets       = resource("apps", "replicasets", "ReplicaSet")
	jobKind    = resource("batch", "jobs", "Job")
	widgets    = resource("example.com", "widgets", "Widget")
)

func resource(group, plural, kind string) resources.Resource {
	return resources.Resource{GroupVersionResource: schema.GroupVersionResource{Group: group, Version: "v1",
		Resource: plural}, Kind: kind, Namespaced: true}
}

// thing is an object of a test's cluster.
type thing struct {
	resource resources.Resource
	object   *unstructured.Unstructured
	gone     bool
}

func (o *thing) name() string { return o.object.GetName() }

// printed is a line of the story, and when it was told.
type printed struct {
	at   time.Time
	text string
}

// desk is a cluster of objects that tests write, and the story of it, in the time of a bubble.
type desk struct {
	*Teller
	t     *testing.T
	made  int
	lines []printed
}

func newDesk(t *testing.T, kinds ...string) *desk {
	return &desk{Teller: New(Options{Kinds: kinds}), t: t}
}

func (d *desk) print(text []byte) {
	for line := range strings.Lines(string(text)) {
		d.lines = append(d.lines, printed{time.Now(), strings.TrimSuffix(line, "\n")})
	}
}

func (d *desk) tell(e news.Event) (told bool) {
	text, told := d.Event(e)
	d.print(text)
	return told
}

// pass lets time go by.
func (d *desk) pass(by time.Duration) {
	for end := time.Now().Add(by); time.Now().Before(end); {
		time.Sleep(min(250*time.Millisecond, time.Until(end)))
		d.print(d.Tick(time.Now()))
	}
}

// text is the story so far.
func (d *desk) text() string {
	var b strings.Builder
	for _, line := range d.lines {
		b.WriteString(line.text + "\n")
	}
	return b.String()
}

// create makes an object, of which content is all but its name.
func (d *desk) create(kind resources.Resource, name string, owner *thing, content object) *thing {
	d.made++
	o := &thing{resource: kind, object: &unstructured.Unstructured{Object: map[string]any{}}}
	for field, value := range content {
		o.object.Object[field] = value
	}
	o.object.SetName(name)
	o.object.SetNamespace("shop")
	o.object.SetUID(uidOf(d.made))
	if owner != nil {
		_ = unstructured.SetNestedSlice(o.object.Object, []any{map[string]any{"kind": owner.resource.Kind,
			"apiVersion": owner.resource.GroupVersion().String(), "name": owner.name(), "controller": true,
			"uid": string(owner.object.GetUID())}}, "metadata", "ownerReferences")
	}
	d.tell(news.NewAdded(time.Now(), kind, o.object, false, news.Options{States: true}))
	return o
}

// update changes an object.
func (d *desk) update(o *thing, edit func(object)) {
	before := o.object
	o.object = before.DeepCopy()
	edit(o.object.Object)
	d.tell(news.NewModified(time.Now(), o.resource, before, o.object, news.Options{States: true}))
}

// stop asks for an object's deletion, which something holds or takes time.
func (d *desk) stop(o *thing) {
	d.update(o, func(o object) { set(o, time.Now().Format(time.RFC3339), "metadata", "deletionTimestamp") })
}

// remove deletes an object.
func (d *desk) remove(o *thing) {
	o.gone = true
	d.tell(news.NewDeleted(time.Now(), o.resource, o.object, false, news.Options{States: true}))
}

// warn reports a Warning about an object, for the nth time.
func (d *desk) warn(about *thing, report *thing, reason, message string, n int64) *thing {
	if report != nil {
		d.update(report, func(o object) { o["count"], o["message"] = n, message })
		return report
	}
	return d.report(about, "Warning", reason, message, n)
}

// report writes an Event.
func (d *desk) report(about *thing, kind, reason, message string, n int64) *thing {
	return d.create(eventKind, fmt.Sprint(about.name(), ".", d.made), nil, object{
		"type": kind, "reason": reason, "message": message, "count": n, "involvedObject": map[string]any{
			"kind": about.resource.Kind, "apiVersion": about.resource.GroupVersion().String(), "name": about.name(),
			"namespace": "shop", "uid": string(about.object.GetUID())}})
}

// set sets a field.
func set(o object, value any, path ...string) { _ = unstructured.SetNestedField(o, value, path...) }

// setCondition sets a condition.
func setCondition(o object, kind, status, reason, message string) {
	c := map[string]any{"type": kind, "status": status, "reason": reason, "message": message}
	var all []any
	for _, other := range list(o, "status", "conditions") {
		if text(other, "type") != kind {
			all = append(all, other)
		}
	}
	_ = unstructured.SetNestedSlice(o, append(all, c), "status", "conditions")
}

// setContainer sets the state of a container.
func setContainer(o object, field, name string, restarts int64, state, last object) {
	c := map[string]any{"name": name, "image": "web:1", "restartCount": restarts, "state": state}
	if last != nil {
		c["lastState"] = last
	}
	var all []any
	for _, other := range list(o, "status", field) {
		if text(other, "name") != name {
			all = append(all, other)
		}
	}
	_ = unstructured.SetNestedSlice(o, append(all, c), "status", field)
}

func running() object { return object{"running": map[string]any{"startedAt": "now"}} }

func waitsFor(reason, message string) object {
	return object{"waiting": map[string]any{"reason": reason, "message": message}}
}

func exited(code int64, reason string) object {
	return object{"terminated": map[string]any{"exitCode": code, "reason": reason}}
}

// onNode binds a pod to a node.
func onNode(node string) func(object) { return func(o object) { set(o, node, "spec", "nodeName") } }

// isRunning says that the container of a pod runs, and whether it is ready.
func isRunning(restarts int64, ready bool) func(object) {
	return func(o object) {
		set(o, "Running", "status", "phase")
		last, _ := at(named(list(o, "status", "containerStatuses"), "name", "main"), "lastState").(object)
		setContainer(o, "containerStatuses", "main", restarts, running(), last)
		setReady(o, ready)
	}
}

func setReady(o object, ready bool) {
	status, reason := "False", "ContainersNotReady"
	if ready {
		status, reason = "True", ""
	}
	setCondition(o, "Ready", status, reason, cmp.Or(reason, "ready"))
}

func setList(o object, value []any, path ...string) error {
	return unstructured.SetNestedSlice(o, value, path...)
}
