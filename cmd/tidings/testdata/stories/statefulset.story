04:51:57 sts/db               image postgres:16 → 17  by kubectl-set
04:51:57 pod/db-2             stopping → gone +0.3s
04:51:57 pod/db-2             on node-3 → running +0.3s → ready +0.7s
04:51:58 pod/db-1             stopping → gone +0.3s
04:51:58 pod/db-1             on node-1 → running +0.3s → ready +0.7s
04:51:59 pod/db-0             stopping → gone +0.3s
04:51:59 pod/db-0             on node-2 → running +0.3s → ready +0.7s
04:52:00 sts/db               rolled out in 3.0s: 3 of 3 ready
