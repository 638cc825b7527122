21:21:23 job/report           new: report:fail  by kubectl-create
21:21:23 pod/report-x7pgh     on node-1 → running and ready +1.5s
21:21:26 pod/report-x7pgh     ! failed: main exited with 1
21:21:35 pod/report-9sgrv     on node-2 +1.6s → running and ready +4.0s
21:21:41 pod/report-9sgrv     ! failed: main exited with 1
21:21:42 job/report           ! failed: Job has reached the specified backoff
             limit: 0 of 1 succeeded, 2 pods failed
