21:21:06 deploy/web           image nginx:1.27 → never  by kubectl-set
21:21:06 rs/web-84c8c5bc9d    new: revision 2, 1 replica
21:21:07 pod/web-84c8c5bc9d-4h9jc on node-3 +0.3s → running +1.3s ! Readiness
             probe failed: HTTP probe failed with statuscode: 503 +1.4s
21:21:18 deploy/web               ! no progress for 11s: 1 of 3 updated, 3 ready
21:21:18 pod/web-84c8c5bc9d-4h9jc ! Readiness probe failed: HTTP probe failed
             with statuscode: 503 (16 times in 10s)
21:21:20 deploy/web               not yet rolled out
21:21:20 pod/web-84c8c5bc9d-4h9jc ! Readiness probe failed: HTTP probe failed
             with statuscode: 503 (18 times in 11s)
