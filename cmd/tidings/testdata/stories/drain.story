04:52:18 node/node-2          cordoned: takes no new pods
04:52:19 drain pod/web-7db6c6f4cd-d66jv ! evicted: Eviction API: evicting
04:52:19 drain pod/web-7db6c6f4cd-d66jv stopping → gone +0.3s
04:52:19 drain pod/web-7db6c6f4cd-x5np8 on node-1 → running +0.3s → ready +0.7s
04:52:19 drain pod/web-7db6c6f4cd-pgxsx ! evicted: Eviction API: evicting
04:52:19 drain pod/web-7db6c6f4cd-pgxsx stopping → gone +0.3s
04:52:19 drain pod/web-7db6c6f4cd-v9zrh on node-3 → running +0.3s → ready +0.7s
04:52:20 node/node-2             uncordoned
