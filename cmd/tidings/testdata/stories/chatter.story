04:52:53 deploy/web           image nginx:1.27 → 1.28  by kubectl-set
04:52:53 rs/web-646c656745    new: revision 2, 1 replica
04:52:53 page/page-0              Synced: page rendered in 0ms
04:52:53 page/page-1              Synced: page rendered in 1ms
04:52:53 page/page-2              Synced: page rendered in 2ms
04:52:53 page/page-3              Synced: page rendered in 3ms
04:52:53 page/page-4              Synced: page rendered in 4ms
04:52:53 pod/web-646c656745-tq9jc on node-1 → running +0.3s → ready +0.7s
04:52:53 rs/web-646c656745        1 → 2
04:52:53 rs/web-7db6c6f4cd        3 → 2: web-7db6c6f4cd-grxrp gone +0.3s
04:52:53 pod/web-646c656745-dw2hb on node-2 → running +0.4s → ready +0.8s
04:52:54 rs/web-646c656745        2 → 3
04:52:54 rs/web-7db6c6f4cd        2 → 1: web-7db6c6f4cd-fbvrr gone +0.3s
04:52:54 pod/web-646c656745-c4824 on node-3 → running +0.3s → ready +0.7s
04:52:55 deploy/web               rolled out in 2.5s: 3 of 3 ready
04:52:55 rs/web-7db6c6f4cd        1 → 0: web-7db6c6f4cd-w6qls gone +0.3s
