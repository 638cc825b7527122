package wiretest

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"time"
)

// CustomResources returns n custom resources as an API server writes them in JSON: databases run by an operator,
// each with a spec that a user applied, a status with conditions and instances, and managedFields of both. About
// one in ten introduces a new spec; the others repeat an earlier one. Equal seeds give equal bytes.
func CustomResources(n int, seed uint64) [][]byte {
	g := &resourceGenerator{r: rand.New(rand.NewPCG(seed, 1)), now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
	out := make([][]byte, n)
	for i := range out {
		if i%10 == 0 {
			g.kinds = append(g.kinds, g.newKind())
		}
		data, err := json.Marshal(g.resource(i))
		if err != nil {
			panic(err) // maps of plain values always encode
		}
		out[i] = data
	}
	return out
}

type tree = map[string]any

// databaseKind is what the databases of one template have in common.
type databaseKind struct {
	namespace, version string
	replicas           int
	labels, spec       tree
}

type resourceGenerator struct {
	r     *rand.Rand
	now   time.Time
	kinds []databaseKind
}

func (g *resourceGenerator) newKind() databaseKind {
	team := fmt.Sprintf("team-%d", g.r.IntN(40))
	kind := databaseKind{
		namespace: fmt.Sprintf("%s-%s", team, []string{"prod", "staging", "dev"}[g.r.IntN(3)]),
		version:   fmt.Sprintf("1%d.%d", 4+g.r.IntN(4), g.r.IntN(9)),
		replicas:  1 + g.r.IntN(4),
		labels:    tree{"app.kubernetes.io/managed-by": "helm", "app.kubernetes.io/part-of": team, "tier": "data"},
	}
	kind.spec = tree{
		"replicas": kind.replicas, "version": kind.version,
		"storage": tree{"class": []string{"fast", "standard"}[g.r.IntN(2)], "size": fmt.Sprintf("%dGi", 10<<g.r.IntN(6)), "encrypted": true},
		"backup":  tree{"schedule": fmt.Sprintf("%d 3 * * *", g.r.IntN(60)), "retentionDays": 7 * (1 + g.r.IntN(4)), "bucket": "s3://backups/" + team},
		"template": tree{
			"resources": tree{"requests": tree{"cpu": fmt.Sprintf("%dm", 250*(1+g.r.IntN(8))), "memory": "2Gi"}, "limits": tree{"memory": "4Gi"}},
			"env":       g.environment(),
			"tolerations": []any{
				tree{"key": "dedicated", "operator": "Equal", "value": "database", "effect": "NoSchedule"},
				tree{"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300},
			},
		},
		"parameters": tree{"max_connections": 100 * (1 + g.r.IntN(5)), "shared_buffers": "512MB", "random_page_cost": 1.1, "fsync": true},
	}
	return kind
}

func (g *resourceGenerator) environment() []any {
	env := make([]any, 4+g.r.IntN(8))
	for i := range env {
		env[i] = tree{"name": fmt.Sprintf("SETTING_%d", i), "value": fmt.Sprintf("value-%d", g.r.IntN(50))}
	}
	return env
}

func (g *resourceGenerator) resource(i int) tree {
	kind := g.kinds[g.r.IntN(len(g.kinds))]
	name := fmt.Sprintf("db-%05d", i)
	created := g.now.Add(time.Duration(g.r.IntN(1e7)) * time.Second)
	ready := created.Add(time.Duration(20+g.r.IntN(600)) * time.Second)
	return tree{
		"apiVersion": "data.example.com/v1", "kind": "Database",
		"metadata": tree{
			"name": name, "namespace": kind.namespace, "labels": kind.labels, "uid": g.uid(),
			"annotations":     tree{"data.example.com/contact": kind.labels["app.kubernetes.io/part-of"].(string) + "@example.com"},
			"resourceVersion": fmt.Sprint(1_000_000 + 7*i), "generation": 1 + g.r.IntN(5),
			"creationTimestamp": rfc3339(created), "finalizers": []any{"data.example.com/cleanup"},
			"managedFields": []any{
				managedEntry("helm", "", created, databaseSpecFields),
				managedEntry("database-operator", "status", ready, databaseStatusFields),
			},
		},
		"spec":   kind.spec,
		"status": g.status(name, kind, ready),
	}
}

func (g *resourceGenerator) status(name string, kind databaseKind, ready time.Time) tree {
	instances := make([]any, kind.replicas)
	for i := range instances {
		instances[i] = tree{
			"name": fmt.Sprintf("%s-%d", name, i), "role": []string{"primary", "replica"}[min(i, 1)], "phase": "Running",
			"address": fmt.Sprintf("10.%d.%d.%d", g.r.IntN(256), g.r.IntN(256), g.r.IntN(256)), "lagBytes": g.r.IntN(3) * g.r.IntN(1e6),
		}
	}
	return tree{
		"observedGeneration": 1, "phase": "Ready", "currentVersion": kind.version, "readyReplicas": kind.replicas, "instances": instances,
		"conditions": []any{
			databaseCondition("Ready", "AllInstancesReady", ready), databaseCondition("Provisioned", "StorageBound", ready.Add(-15*time.Second)),
			databaseCondition("BackupHealthy", "LastBackupSucceeded", ready.Add(time.Hour)),
		},
	}
}

func (g *resourceGenerator) uid() string {
	a, b := g.r.Uint64(), g.r.Uint64()
	return fmt.Sprintf("%08x-%04x-4%03x-%04x-%012x", uint32(a), uint16(a>>32), a>>52, uint16(b), b>>16)
}

func databaseCondition(kind, reason string, at time.Time) tree {
	return tree{"type": kind, "status": "True", "reason": reason, "message": "", "lastTransitionTime": rfc3339(at), "observedGeneration": 1}
}

func managedEntry(manager, subresource string, at time.Time, fields tree) tree {
	entry := tree{
		"manager": manager, "operation": "Update", "apiVersion": "data.example.com/v1",
		"fieldsType": "FieldsV1", "fieldsV1": fields, "time": rfc3339(at),
	}
	if subresource != "" {
		entry["subresource"] = subresource
	}
	return entry
}

func rfc3339(t time.Time) string { return t.Format(time.RFC3339) }

// fieldSet returns a set of fields in the notation of managedFields.
func fieldSet(names ...string) tree {
	set := tree{".": tree{}}
	for _, name := range names {
		set["f:"+name] = tree{}
	}
	return set
}

var databaseSpecFields = tree{
	"f:metadata": tree{"f:labels": fieldSet("app.kubernetes.io/managed-by", "app.kubernetes.io/part-of", "tier"), "f:annotations": fieldSet("data.example.com/contact")},
	"f:spec": tree{
		".": tree{}, "f:replicas": tree{}, "f:version": tree{}, "f:storage": fieldSet("class", "size", "encrypted"),
		"f:backup": fieldSet("schedule", "retentionDays", "bucket"), "f:parameters": fieldSet("max_connections", "shared_buffers", "random_page_cost", "fsync"),
		"f:template": tree{".": tree{}, "f:env": tree{}, "f:tolerations": tree{}, "f:resources": tree{"f:limits": fieldSet("memory"), "f:requests": fieldSet("cpu", "memory")}},
	},
}

var databaseStatusFields = tree{
	"f:metadata": tree{"f:finalizers": tree{".": tree{}, `v:"data.example.com/cleanup"`: tree{}}},
	"f:status": tree{
		".": tree{}, "f:phase": tree{}, "f:currentVersion": tree{}, "f:readyReplicas": tree{}, "f:observedGeneration": tree{}, "f:instances": tree{},
		"f:conditions": tree{
			".": tree{}, `k:{"type":"Ready"}`: fieldSet("type", "status", "reason", "message", "lastTransitionTime", "observedGeneration"),
			`k:{"type":"Provisioned"}`:   fieldSet("type", "status", "reason", "message", "lastTransitionTime", "observedGeneration"),
			`k:{"type":"BackupHealthy"}`: fieldSet("type", "status", "reason", "message", "lastTransitionTime", "observedGeneration"),
		},
	},
}
