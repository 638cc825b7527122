21:54:57 deploy/web           replicas: 3 → 4  by autoscaler
21:54:57 rs/web-7db6c6f4cd    3 → 4
21:54:57 deploy/web               replicas: 4 → 3  by gitops
21:54:57 pod/web-7db6c6f4cd-5lhcx on node-2 → running +0.3s
21:54:57 deploy/web               scaled in 0.4s: 3 of 3 ready
21:54:57 rs/web-7db6c6f4cd        4 → 3: web-7db6c6f4cd-5lhcx gone +0.3s
21:54:57 deploy/web               ! autoscaler and gitops fight over replicas: 3
             ↔ 4
21:54:57 rs/web-7db6c6f4cd        3 → 4
21:54:57 pod/web-7db6c6f4cd-v5jz8 on node-3 → running +0.3s
21:54:58 deploy/web               scaled in 0.5s: 3 of 3 ready
21:54:58 rs/web-7db6c6f4cd        4 → 3: web-7db6c6f4cd-v5jz8 gone +0.3s
21:54:58 rs/web-7db6c6f4cd        3 → 4
21:54:58 pod/web-7db6c6f4cd-bpds5 on node-1 → running +0.3s
21:54:59 deploy/web               scaled in 0.4s: 3 of 3 ready
21:54:59 rs/web-7db6c6f4cd        4 → 3: web-7db6c6f4cd-bpds5 gone +0.3s
21:54:59 rs/web-7db6c6f4cd        3 → 4
21:54:59 pod/web-7db6c6f4cd-vthbp on node-2 → running +0.3s
21:55:00 deploy/web               scaled in 0.5s: 3 of 3 ready
21:55:00 rs/web-7db6c6f4cd        4 → 3: web-7db6c6f4cd-vthbp gone +0.3s
21:55:00 rs/web-7db6c6f4cd        3 → 4
21:55:00 pod/web-7db6c6f4cd-44th9 on node-3 → running +0.3s
21:55:00 deploy/web               scaled in 0.5s: 3 of 3 ready
21:55:00 rs/web-7db6c6f4cd        4 → 3: web-7db6c6f4cd-44th9 gone +0.3s
21:55:01 rs/web-7db6c6f4cd        3 → 4
21:55:01 pod/web-7db6c6f4cd-nzl8k on node-1 → running +0.3s
21:55:01 deploy/web               scaled in 0.4s: 3 of 3 ready
21:55:01 rs/web-7db6c6f4cd        4 → 3: web-7db6c6f4cd-nzl8k gone +0.3s
21:55:01 deploy/web               ! autoscaler and gitops fight over replicas: 3
             ↔ 4 (12 times in 4.8s)
