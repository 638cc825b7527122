04:52:58 deploy/web           image nginx:1.27 → 1.28  by kubectl-set
04:52:58 rs/web-646c656745    new: revision 2, 1 replica
04:52:59 lease/controller-1       holderIdentity: host-1 → host-9  by controller
04:52:58 pod/web-646c656745-vvz6k on node-1 +0.1s → running +0.4s → ready +0.8s
04:52:59 rs/web-646c656745        1 → 2
04:52:59 rs/web-7db6c6f4cd        3 → 2: web-7db6c6f4cd-nxjx7 gone +0.3s
04:52:59 pod/web-646c656745-9bh29 on node-2 → running +0.3s → ready +0.7s
04:53:00 rs/web-646c656745        2 → 3
04:53:00 rs/web-7db6c6f4cd        2 → 1: web-7db6c6f4cd-rwnzg gone +0.3s
04:53:00 pod/web-646c656745-j7pqp on node-3 → running +0.3s → ready +0.7s
04:53:01 deploy/web               rolled out in 2.4s: 3 of 3 ready
04:53:01 rs/web-7db6c6f4cd        1 → 0: web-7db6c6f4cd-ngzkc gone +0.3s
