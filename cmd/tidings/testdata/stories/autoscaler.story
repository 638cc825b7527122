04:52:43 hpa/web              new: 2 to 6 replicas of web  by kubectl-create
04:52:44 deploy/web           replicas: 3 → 4  by kube-controller-manager
04:52:44 hpa/web              wants 0 → 4 replicas
04:52:44 rs/web-7db6c6f4cd    3 → 4
04:52:44 pod/web-7db6c6f4cd-pzcxg on node-2 → running +0.3s → ready +0.7s
04:52:45 deploy/web               scaled in 0.8s: 4 of 4 ready
04:52:45 deploy/web               replicas: 4 → 2  by kube-controller-manager
04:52:45 hpa/web                  wants 4 → 2 replicas
04:52:45 deploy/web               scaled in 0.0s: 2 of 2 ready
04:52:45 rs/web-7db6c6f4cd        4 → 2: 2 pods gone +0.3s
04:52:46 deploy/web               replicas: 2 → 4  by kube-controller-manager
04:52:46 rs/web-7db6c6f4cd        2 → 4
04:52:46 hpa/web                  wants 2 → 4 replicas
04:52:46 deploy/web               ! only 2 of 4 ready
04:52:46 pod/web-7db6c6f4cd-2v9cc on node-3 → running +0.3s → ready +0.7s
04:52:47 deploy/web               available again: 3 of 4 ready
04:52:46 pod/web-7db6c6f4cd-jbzjh on node-1 +0.1s → running +0.4s → ready +0.8s
04:52:47 deploy/web               scaled in 0.8s: 4 of 4 ready
04:52:47 deploy/web               ! replicas flaps between 2 and 4
04:52:47 hpa/web                  wants 4 → 2 replicas
04:52:47 deploy/web               scaled in 0.1s: 2 of 2 ready
04:52:47 rs/web-7db6c6f4cd        4 → 2: 2 pods gone +0.3s
04:52:48 hpa/web                  wants 2 → 4 replicas
04:52:48 rs/web-7db6c6f4cd        2 → 4
04:52:48 pod/web-7db6c6f4cd-ljf7s on node-3 → running +0.3s → ready +0.7s
04:52:48 pod/web-7db6c6f4cd-qgmmj on node-2 → running +0.3s → ready +0.8s
04:52:49 deploy/web               scaled in 0.8s: 4 of 4 ready
04:52:49 hpa/web                  wants 4 → 2 replicas
04:52:49 deploy/web               scaled in 0.1s: 2 of 2 ready
04:52:49 rs/web-7db6c6f4cd        4 → 2: 2 pods gone +0.3s
04:52:50 deploy/web               ! only 2 of 4 ready (2 times in 4.1s),
             available again: 3 of 4 ready
04:52:50 deploy/web               ! replicas flaps between 2 and 4 (5 times in
             5.1s)
