package report

// aboutPrograms refers to the figures of whole programs, which have their own runs and pages.
const aboutPrograms = `- Controllers of Kubernetes itself on both engines, against the real control plane, for ten minutes each with an API server that is killed and
  restarted: [upstream/RESULTS.md](../upstream/RESULTS.md) (` + "`make upstream`" + `).
- A program like kube-state-metrics, with an informer for every built-in resource: [STATEMETRICS.md](STATEMETRICS.md) (` + "`make state-metrics`" + `).
`
