package report

// aboutPrograms links to the figures of whole programs, which have their own runs and pages.
const aboutPrograms = `- Kubernetes' own controllers on both engines, against the real control plane, for ten minutes each, while the API server is killed and
  restarted: [upstream/RESULTS.md](../upstream/RESULTS.md) (` + "`make upstream`" + `).
- sample-controller, kube-state-metrics and coredns, as they are and migrated: [upstream/PROGRAMS.md](../upstream/PROGRAMS.md)
  (` + "`make programs`" + `).
- A program like kube-state-metrics, with an informer for every built-in resource: [STATEMETRICS.md](STATEMETRICS.md) (` + "`make state-metrics`" + `).
`
