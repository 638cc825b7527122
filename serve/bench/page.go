package main

import (
	"fmt"
	"runtime"
	"strings"
	"time"
)

// page returns the page of results.
func (w *world) page(rows []row) string {
	var b strings.Builder
	fmt.Fprintf(&b, `# A read replica beside kube-apiserver

Written by `+"`make bench-serve`"+` on %s, with %d CPUs. Both servers ran at the same time, with %d pods:
kube-apiserver with etcd in one process, and one replica of tidings-serve in front of it, both with their default
settings except the limits of requests in flight, which were raised. The clients ran on the same machine. CPU is user
and system time of the server's process. Of the rows with watchers, what the changes cost without watchers is taken off.

| what | kube-apiserver | replica | ratio | target |
|---|---|---|---|---|
`, time.Now().UTC().Format(time.DateOnly), runtime.NumCPU(), w.Pods)
	for _, r := range rows {
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", r.what, r.server, r.replica, r.ratio, r.target)
	}
	b.WriteString(notes)
	return b.String()
}

const notes = `
- Times are only as good as the machine is quiet; CPU and bytes are less sensitive.
- kube-apiserver's memory includes what etcd, in the same process, takes for the pods, so the ratio flatters the
  replica.
- Informers that start together are compared with the bytes that the replica sent them, which kube-apiserver would have
  sent instead.
- A watcher that saw every change before it ended lost none: the row of lost or repeated changes counts repeated ones,
  and the command fails otherwise.
- Very many pods come from a server that makes them while it sends them, over HTTP: kube-apiserver with etcd cannot hold
  them on one machine. The replica has a memory budget, with which it keeps objects packed. Its heap is what Go's
  runtime reports as in use, after a garbage collection or not.
`
