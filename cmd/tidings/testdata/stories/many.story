04:51:51 deploy/web           replicas: 3 → 53  by kubectl-scale
04:51:51 rs/web-7db6c6f4cd    3 → 53
04:51:51 deploy/web               ! only 3 of 53 ready
04:51:51 rs/web-7db6c6f4cd        50 pods on 3 nodes +0.1s to 0.5s → running
             +0.8s to 1.1s → ready +1.2s to 1.8s
04:51:53 deploy/web               available again: 53 of 53 ready
04:51:53 deploy/web               scaled in 2.0s: 53 of 53 ready
