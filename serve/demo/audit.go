package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// auditLog is the API server's own record of every request.
type auditLog struct{ dir string }

// auditPolicy records who sent each request and what it asked for, when it arrives.
const auditPolicy = `{"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": [{"level": "Metadata"}],
	"omitStages": ["ResponseStarted", "ResponseComplete"]}`

func newAuditLog() (*auditLog, error) {
	dir, err := os.MkdirTemp("", "tidings-audit-")
	if err != nil {
		return nil, err
	}
	a := &auditLog{dir}
	return a, os.WriteFile(a.policy(), []byte(auditPolicy), 0o600)
}

func (a *auditLog) policy() string { return filepath.Join(a.dir, "policy.json") }
func (a *auditLog) file() string   { return filepath.Join(a.dir, "audit.log") }
func (a *auditLog) remove()        { _ = os.RemoveAll(a.dir) } // leftovers in a temporary folder do no harm

// args returns the flags of kube-apiserver that turn the log on.
func (a *auditLog) args() []string {
	return []string{"--audit-policy-file=" + a.policy(), "--audit-log-path=" + a.file(), "--audit-log-mode=blocking"}
}

// count counts the requests of each user agent, as "verb resource".
func (a *auditLog) count() (map[string]map[string]int, error) {
	f, err := os.Open(a.file())
	if err != nil {
		return nil, err
	}
	defer f.Close()
	counts := map[string]map[string]int{}
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var event struct {
			UserAgent, Verb, RequestURI string
			ObjectRef                   struct{ Resource string }
		}
		if err := json.Unmarshal(lines.Bytes(), &event); err != nil {
			return nil, fmt.Errorf("audit log: %w", err)
		}
		what := event.Verb + " " + event.ObjectRef.Resource
		if event.Verb == "list" && strings.Contains(event.RequestURI+"&", "limit=1&") {
			what += " (limit=1)"
		}
		if counts[event.UserAgent] == nil {
			counts[event.UserAgent] = map[string]int{}
		}
		counts[event.UserAgent][what]++
	}
	return counts, lines.Err()
}

// showRequests prints how many requests of the replicas and of their clients reached the API
// server. A list or a watch of an informer is an error.
func showRequests(out *printer, audit *auditLog) error {
	counts, err := audit.count()
	if err != nil {
		return err
	}
	for _, agent := range []string{replicaAgent, kubectlAgent, theirAgent, ourAgent} {
		var lines []string
		for _, what := range slices.Sorted(maps.Keys(counts[agent])) {
			if strings.TrimSpace(what) != "get" { // discovery
				lines = append(lines, fmt.Sprintf("%d %s", counts[agent][what], what))
			}
		}
		if lines == nil {
			lines = []string{"nothing"}
		}
		out.say("   %-18s %s", agent, strings.Join(lines, ", "))
	}
	for _, agent := range []string{theirAgent, ourAgent} {
		for what, n := range counts[agent] {
			if strings.HasPrefix(what, "list ") || strings.HasPrefix(what, "watch ") {
				return fmt.Errorf("of %s, %d requests reached the API server: %s", agent, n, what)
			}
		}
	}
	return nil
}
