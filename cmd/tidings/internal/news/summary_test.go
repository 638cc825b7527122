package news

import (
	"encoding/json"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/tidings/tidings/cmd/tidings/internal/diff"
	"github.com/tidings/tidings/cmd/tidings/internal/resources"
)

func object(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	data, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	o := &unstructured.Unstructured{}
	if err := o.UnmarshalJSON(data); err != nil {
		t.Fatal(err)
	}
	return o
}

func TestSummary(t *testing.T) {
	for text, want := range map[string]string{
		`{apiVersion: v1, kind: Event, metadata: {name: e}, type: Warning, reason: BackOff, message: "Back-off restarting\nfailed container", count: 3,
involvedObject: {kind: Pod, name: web-1}}`: `type=Warning reason=BackOff object=Pod/web-1 message="Back-off restarting\nfailed container" count=3`,
		`{apiVersion: events.k8s.io/v1, kind: Event, metadata: {name: e}, type: Normal, reason: Pulled, note: "done", regarding: {kind: Pod, name: web-1}}`: `type=Normal reason=Pulled object=Pod/web-1 message=done`,
		`{apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {nodeName: n1, containers: [{name: a, image: "web:1"}, {name: b, image: "log:1"}, {name: c, image: "web:1"}]},
status: {phase: Failed, reason: Evicted, conditions: [{type: Ready, status: "False"}], containerStatuses: [{restartCount: 2}, {restartCount: 1}]}}`: `phase=Failed reason=Evicted ready=False images=web:1,log:1 node=n1 restarts=3`,
		`{apiVersion: apps/v1, kind: Deployment, metadata: {name: d}, spec: {replicas: 3, template: {spec: {containers: [{image: "web:2"}]}}}, status: {readyReplicas: 2}}`:    `replicas=2/3 images=web:2`,
		`{apiVersion: batch/v1, kind: CronJob, metadata: {name: d}, spec: {schedule: "* * * * *", jobTemplate: {spec: {template: {spec: {containers: [{image: "job:2"}]}}}}}}`: `images=job:2 schedule="* * * * *"`,
		`{apiVersion: v1, kind: ConfigMap, metadata: {name: d}, data: {b: "1", a: "2"}, binaryData: {c: ""}}`:                                                                  `keys=a,b,c`,
		`{apiVersion: v1, kind: Secret, metadata: {name: d}, type: Opaque, data: {password: aHVudGVyMg==}}`:                                                                    `type=Opaque keys=password`,
		`{apiVersion: coordination.k8s.io/v1, kind: Lease, metadata: {name: d}, spec: {holderIdentity: host_1}}`:                                                               `holder=host_1`,
		`{apiVersion: x.io/v1, kind: Odd, metadata: {name: d}, spec: [1], status: {phase: {a: 1}, conditions: 7}, type: [2], data: 3}`:                                         ``,
	} {
		o := object(t, text)
		r := resources.Resource{Kind: o.GetKind()}
		if o.GetKind() == "Secret" {
			r.GroupVersionResource = schema.GroupVersionResource{Version: "v1", Resource: "secrets"}
		}
		for _, e := range []Event{NewAdded(noon, r, o, false, Options{}), NewDeleted(noon, r, o, false, Options{})} {
			_, got, _ := strings.Cut(string((Text{}).Event(e)), "\n")
			if got = strings.TrimSpace(got); got != want {
				t.Errorf("%s:\ngot  %s\nwant %s", o.GetKind(), got, want)
			}
		}
	}
	long := NewAdded(noon, resources.Resource{Kind: "Event"}, object(t, `{apiVersion: v1, kind: Event, metadata: {name: e}, message: `+strings.Repeat("x", 500)+`}`), false, Options{})
	if got := (Text{Limits: Limits{Value: 50}}).Event(long); len(got) > 120 {
		t.Errorf("%s", got)
	}
}

// TestObjectOnDemand: the whole object is included if requested, without secrets and bookkeeping.
func TestObjectOnDemand(t *testing.T) {
	o := object(t, `{apiVersion: v1, kind: Secret, metadata: {name: db, annotations: {kubectl.kubernetes.io/last-applied-configuration: "{\"stringData\":{\"password\":\"hunter2\"}}"},
managedFields: [{manager: x}]}, data: {password: aHVudGVyMg==}}`)
	r := resources.Resource{GroupVersionResource: schema.GroupVersionResource{Version: "v1", Resource: "secrets"}, Kind: "Secret"}
	for opts, parts := range map[Options][]string{
		{}:              nil,
		{Objects: true}: {"password", "redacted"},
		{Objects: true, Diff: diff.Options{ManagedFields: true, LastApplied: true}}: {"password", "redacted", "managedFields", "last-applied"},
	} {
		for _, e := range []Event{NewAdded(noon, r, o, false, opts), NewModified(noon, r, o, o, opts), NewDeleted(noon, r, o, false, opts)} {
			line := JSON{}.Event(e)
			var v struct{ Object map[string]any }
			if err := json.Unmarshal(line, &v); err != nil || (v.Object != nil) != opts.Objects {
				t.Errorf("%+v: %v in %s", opts, err, line)
			}
			text, _ := json.Marshal(v.Object)
			for _, part := range []string{"password", "redacted", "managedFields", "last-applied"} {
				if wanted := strings.Contains(strings.Join(parts, " "), part); strings.Contains(string(text), part) != wanted {
					t.Errorf("%+v: %q is in it: %t\n%s", opts, part, !wanted, text)
				}
			}
			if strings.Contains(string(line), "hunter2") || strings.Contains(string(line), "aHVudGVyMg") {
				t.Errorf("%s", line)
			}
		}
	}
}
