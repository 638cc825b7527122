21:54:44 pod/web-7db6c6f4cd-7sfwb ! evicted: Eviction API: evicting
21:54:44 deploy/web               ! only 2 of 3 ready
21:54:44 pod/web-7db6c6f4cd-7sfwb stopping → gone +0.3s
21:54:44 pod/web-7db6c6f4cd-ksgxd on node-1 → running +0.3s → ready +0.7s
21:54:44 deploy/web               available again: 3 of 3 ready
