20:19:42 deploy/web           image nginx:1.27 → 1.28  by kubectl-set
20:19:42 rs/web-646c656745    new: revision 2, 1 replica
20:19:42 pod/web-646c656745-5rkqr on node-1 → running +0.3s → ready +0.7s
20:19:43 rs/web-646c656745        1 → 2
20:19:43 rs/web-7db6c6f4cd        3 → 2: web-7db6c6f4cd-kr97g gone +0.3s
20:19:43 pod/web-646c656745-7pd8k on node-2 → running +0.3s → ready +0.7s
20:19:44 rs/web-646c656745        2 → 3
20:19:44 rs/web-7db6c6f4cd        2 → 1: web-7db6c6f4cd-sgc82 gone +0.3s
20:19:44 pod/web-646c656745-h9226 on node-3 → running +0.4s → ready +0.8s
20:19:45 deploy/web               rolled out in 2.4s: 3 of 3 ready
20:19:45 rs/web-7db6c6f4cd        1 → 0: web-7db6c6f4cd-pxsjm gone +0.3s
