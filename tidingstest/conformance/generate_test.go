package conformance

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
)

// generator makes random requests on objects of a few kinds and names in one namespace: valid ones, and such that
// break a rule of metadata, of patches, of versions or of options.
type generator struct {
	*rand.Rand
	versions, uids func() int // how many symbols there are
}

// generatedKind is a kind whose spec a server neither defaults nor checks beyond its types.
type generatedKind struct {
	resource, apiVersion, kind string
	status                     bool
	content                    func(g *generator) map[string]any
}

func (k *generatedKind) collection() string {
	if strings.Contains(k.apiVersion, "/") {
		return "/apis/" + k.apiVersion + "/namespaces/$ns/" + k.resource
	}
	return "/api/" + k.apiVersion + "/namespaces/$ns/" + k.resource
}

// generatedCRD defines the custom resource of generatedKinds.
const generatedCRD = `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition",
"metadata":{"name":"things.generated.example.com"},
"spec":{"group":"generated.example.com","scope":"Namespaced",
 "names":{"plural":"things","singular":"thing","kind":"Thing"},
 "versions":[{"name":"v1","served":true,"storage":true,"subresources":{"status":{}},
  "schema":{"openAPIV3Schema":{"type":"object","properties":{
   "spec":{"type":"object","properties":{
    "size":{"type":"integer"},
    "color":{"type":"string"},
    "parts":{"type":"array","x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["name"],
     "items":{"type":"object","required":["name"],"properties":{"name":{"type":"string"},"value":{"type":"string"}}}},
    "free":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}},
   "status":{"type":"object","properties":{"seen":{"type":"integer"}}}}}}}]}}`

var generatedKinds = []*generatedKind{
	{resource: "configmaps", apiVersion: "v1", kind: "ConfigMap", content: func(g *generator) map[string]any {
		o := map[string]any{}
		if g.IntN(4) > 0 {
			o["data"] = g.strings("k", 3)
		}
		if g.IntN(5) == 0 {
			o["binaryData"] = map[string]any{"b": g.pick("AQID", "", "AQI=")}
		}
		return o
	}},
	{resource: "secrets", apiVersion: "v1", kind: "Secret", content: func(g *generator) map[string]any {
		o := map[string]any{}
		if g.IntN(3) > 0 {
			o["data"] = map[string]any{g.pick("k1", "k2"): g.pick("AQID", "", "Zm9v")}
		}
		if g.IntN(2) == 0 {
			o["stringData"] = g.strings("k", 2)
		}
		return o
	}},
	{resource: "leases", apiVersion: "coordination.k8s.io/v1", kind: "Lease",
		content: func(g *generator) map[string]any {
			spec := map[string]any{}
			if g.IntN(2) == 0 {
				spec["holderIdentity"] = g.pick("a", "b")
			}
			if g.IntN(2) == 0 {
				spec["leaseDurationSeconds"] = 1 + g.IntN(3)
			}
			if g.IntN(3) == 0 {
				spec["renewTime"] = g.pick("2026-01-02T03:04:05.000006Z", "2026-01-02T03:04:05Z",
					"2026-01-02T03:04:05.123456789Z")
			}
			return map[string]any{"spec": spec}
		}},
	{resource: "things", apiVersion: "generated.example.com/v1", kind: "Thing", status: true,
		content: func(g *generator) map[string]any {
			spec := map[string]any{}
			if g.IntN(2) == 0 {
				spec["size"] = g.IntN(3)
			}
			if g.IntN(2) == 0 {
				spec["color"] = g.pick("red", "blue", "")
			}
			if g.IntN(2) == 0 {
				parts := []any{}
				for i := range g.IntN(3) {
					parts = append(parts, map[string]any{"name": fmt.Sprint("p", i), "value": g.pick("1", "2")})
				}
				spec["parts"] = parts
			}
			if g.IntN(3) == 0 {
				spec["free"] = map[string]any{"x": g.IntN(2), "y": map[string]any{"z": g.pick("1", "2")}}
			}
			g.rarely(12, func() { spec[g.pick("color", "free")] = nil }, func() { spec["size"] = g.pick("text", "1") })
			if g.IntN(8) == 0 {
				spec["pruned"] = "x"
			}
			o := map[string]any{"spec": spec}
			if g.IntN(3) == 0 {
				o["status"] = map[string]any{"seen": g.IntN(3)}
			}
			return o
		}},
}

func (g *generator) pick(values ...string) string { return values[g.IntN(len(values))] }

// strings returns some members of a map of strings.
func (g *generator) strings(prefix string, most int) map[string]any {
	m := map[string]any{}
	for range 1 + g.IntN(most) {
		m[fmt.Sprint(prefix, 1+g.IntN(3))] = g.pick("1", "2", "", "long text\nof two lines")
	}
	return m
}

// rarely calls one of the functions, or none.
func (g *generator) rarely(one int, functions ...func()) {
	if g.IntN(one) == 0 {
		functions[g.IntN(len(functions))]()
	}
}

func (g *generator) version() string {
	if n := g.versions(); n > 0 && g.IntN(8) > 0 {
		return fmt.Sprint("$v", max(1, n-g.IntN(3)))
	}
	return g.pick("0", "1", "no number", "-1", "")
}

func (g *generator) uid() string {
	if n := g.uids(); n > 0 && g.IntN(4) > 0 {
		return fmt.Sprint("$uid", 1+g.IntN(n))
	}
	return "11111111-2222-3333-4444-555555555555"
}

// metadata returns metadata for an object of this name.
func (g *generator) metadata(name string) map[string]any {
	m := map[string]any{"name": name}
	if g.IntN(3) == 0 {
		m["labels"] = map[string]any{g.pick("l", "example.com/l"): g.pick("1", "2", "")}
	}
	if g.IntN(4) == 0 {
		m["annotations"] = g.strings("a", 2)
	}
	if g.IntN(5) == 0 {
		m["finalizers"] = []any{"example.com/" + g.pick("f", "g")}
	}
	g.rarely(4,
		func() { m["labels"] = map[string]any{g.pick("l", "-l", "a/b/c", ""): g.pick("1", "not valid!", "-")} },
		func() { m["annotations"] = map[string]any{g.pick("A/b", "no good", "a.b/c"): "1"} },
		func() {
			m["finalizers"] = []any{g.pick("orphan", "foregroundDeletion", "kubernetes", "example.com/f")}
		},
		func() {
			m["ownerReferences"] = []any{map[string]any{
				"apiVersion": g.pick("v1", "x/y/z", ""), "kind": g.pick("ConfigMap", "Event", ""),
				"name": g.pick("a", ""),
				"uid":  g.uid(), "controller": g.IntN(2) == 0,
			}}
		},
		func() { m["namespace"] = g.pick("$ns", "elsewhere", "") },
		func() { m["uid"] = g.uid() },
		func() { m["resourceVersion"] = g.version() },
		func() { m["creationTimestamp"] = "2020-01-02T03:04:05Z" },
		func() { m["generation"] = g.IntN(5) - 1 },
		func() { m["unknown"] = "field" },
		func() { m["name"] = g.pick("Upper", "a_b", strings.Repeat("x", 254), "..", "a/b", "", "other") },
	)
	return m
}

func (g *generator) object(k *generatedKind, name string) map[string]any {
	o := k.content(g)
	o["apiVersion"], o["kind"], o["metadata"] = k.apiVersion, k.kind, g.metadata(name)
	g.rarely(15,
		func() { delete(o, "kind") },
		func() { o["kind"] = "Pod" },
		func() { o["apiVersion"] = g.pick("v2", "apps/v1", "") },
		func() { o["surplus"] = map[string]any{"a": 1} },
		func() { delete(o, "metadata") },
		func() { o["metadata"] = g.pick("text", "") },
	)
	return o
}

// writeOptions returns a query of a write, with its question mark.
func (g *generator) writeOptions(more ...string) string {
	query := more
	g.rarely(4,
		func() { query = append(query, "dryRun=All") },
		func() { query = append(query, "dryRun=Some") },
		func() { query = append(query, "fieldValidation="+g.pick("Strict", "Warn", "Ignore", "Often")) },
		func() { query = append(query, "pretty=true") },
	)
	if g.IntN(2) == 0 {
		query = append(query, "fieldManager="+g.pick("one", "two"))
	}
	if len(query) == 0 {
		return ""
	}
	return "?" + strings.Join(query, "&")
}

func text(content any) string {
	data, err := json.Marshal(content)
	if err != nil {
		panic(err)
	}
	return string(data)
}

// step returns the next request.
func (g *generator) step() *step {
	k := generatedKinds[g.IntN(len(generatedKinds))]
	name := g.pick("a", "b", "c")
	one := k.collection() + "/" + name
	if k.status && g.IntN(4) == 0 {
		one += "/status"
	}
	st := &step{managed: true}
	switch g.IntN(13) {
	case 0, 1, 2:
		st.verb, st.target = "POST", k.collection()+g.writeOptions()
		st.body = text(g.object(k, name))
	case 3, 4:
		st.verb, st.target = "PUT", one+g.writeOptions()
		o := g.object(k, name)
		if m, ok := o["metadata"].(map[string]any); ok && g.IntN(2) == 0 {
			m["resourceVersion"] = g.version()
		}
		st.body = text(o)
	case 5, 6:
		g.mergePatch(st, k, one, name)
	case 7:
		g.jsonPatch(st, one)
	case 8, 9:
		g.applyPatch(st, k, one, name)
	case 10:
		g.deletion(st, one)
	case 11:
		st.verb, st.target = "DELETE", k.collection()+"?labelSelector="+g.pick("l%3D1", "l", "!l,l%3D2", "l+in+(1,2)")
	default:
		st.verb, st.target = "GET", one
		if g.IntN(2) == 0 {
			st.target = k.collection() + "?labelSelector=l" +
				g.pick("", "%3D1", "!%3D2", "+notin+(1)") + g.pick("", "&fieldSelector=metadata.name%3Da")
		}
	}
	st.title = st.verb
	return st
}

func (g *generator) mergePatch(st *step, k *generatedKind, one, name string) {
	st.verb, st.target = "PATCH", one+g.writeOptions()
	st.headers = []string{"Content-Type: application/" + g.pick("", "", "strategic-") + "merge-patch+json"}
	patch := k.content(g)
	if g.IntN(2) == 0 {
		m := g.metadata(name)
		g.rarely(2, func() { delete(m, "name") })
		patch["metadata"] = m
	}
	g.rarely(5,
		func() { patch["metadata"] = nil },
		func() { patch["metadata"] = map[string]any{"finalizers": nil} },
		func() { patch["metadata"] = map[string]any{"labels": map[string]any{"l": nil}} },
		func() { patch["metadata"] = map[string]any{"managedFields": []any{map[string]any{}}} },
		func() { patch["metadata"] = map[string]any{"managedFields": []any{}} },
		func() { patch["metadata"] = map[string]any{"resourceVersion": g.version()} },
		func() { patch["data"] = nil },
		func() { patch["spec"] = nil },
		func() { patch["kind"] = g.pick("Pod", "") },
		func() { patch["stringData"] = nil },
	)
	st.body = text(patch)
	g.rarely(20, func() { st.body = g.pick("", "null", "[]", "{", "1") })
}

func (g *generator) jsonPatch(st *step, one string) {
	st.verb, st.target = "PATCH", one+g.writeOptions()
	st.headers = []string{"Content-Type: application/json-patch+json"}
	var operations []any
	for range 1 + g.IntN(2) {
		o := map[string]any{
			"op": g.pick("add", "replace", "remove", "test", "copy", "move", "what"),
			"path": g.pick("/data/k1", "/data", "/metadata/labels", "/metadata/labels/l", "/spec/size",
				"/spec/parts/0/value",
				"/metadata/name", "nowhere"),
		}
		o["value"] = g.pick("1", "2")
		if g.IntN(4) == 0 {
			o["from"] = g.pick("/data/k2", "/metadata/labels/l")
		}
		operations = append(operations, o)
	}
	st.body = text(operations)
	g.rarely(15, func() { st.body = g.pick("", "{}", "[", "[{}]") })
}

func (g *generator) applyPatch(st *step, k *generatedKind, one, name string) {
	options := []string{"fieldManager=" + g.pick("one", "two")}
	g.rarely(2,
		func() { options = append(options, "force=true") },
		func() { options = append(options, "force=false") },
		func() { options = nil },
	)
	query := g.writeOptions(options...)
	if strings.Count(query, "fieldManager") > 1 {
		query = "?" + strings.Join(options, "&")
	}
	st.verb, st.target = "PATCH", one+query
	st.headers = []string{"Content-Type: application/apply-patch+yaml"}
	o := g.object(k, name)
	if spec, ok := o["spec"].(map[string]any); ok && len(spec) == 0 {
		delete(o, "spec") // an owner that gives up all of an object gets null from newer servers
	}
	st.body = text(o)
	g.rarely(20, func() { st.body = g.pick("", "null", "a: [", "- a") })
}

func (g *generator) deletion(st *step, one string) {
	st.verb, st.target = "DELETE", strings.TrimSuffix(one, "/status")
	options := map[string]any{}
	g.rarely(2,
		func() { options["propagationPolicy"] = g.pick("Orphan", "Background", "Foreground", "Nothing") },
		func() { options["preconditions"] = map[string]any{"uid": g.uid()} },
		func() { options["preconditions"] = map[string]any{"resourceVersion": g.version()} },
		func() { options["dryRun"] = []any{"All"} },
		func() { options["gracePeriodSeconds"] = g.IntN(3) - 1 },
		func() { options["orphanDependents"] = g.IntN(2) == 0 },
		func() { options["unknown"] = 1 },
	)
	if len(options) > 0 || g.IntN(4) == 0 {
		st.body = text(options)
	}
}
