21:20:32 deploy/web           new: 1 × nginx:crash  by kubectl-create
21:20:32 rs/web-9874c77d6     new: revision 1, 1 replica
21:20:32 pod/web-9874c77d6-55l96 on node-1 → running and ready +0.3s
21:20:32 deploy/web              rolled out in 0.4s: 1 of 1 ready
21:20:32 deploy/web              ! only 0 of 1 ready
21:20:32 pod/web-9874c77d6-55l96 ! main exited with 1, start 2
21:20:32 pod/web-9874c77d6-55l96 … ready
21:20:32 deploy/web              available again: 1 of 1 ready
21:20:33 pod/web-9874c77d6-55l96 ! main keeps exiting with 1: back-off 10s
21:20:34 pod/web-9874c77d6-55l96 ! main exited with 1, start 3
21:20:34 pod/web-9874c77d6-55l96 … running +1.1s ! main keeps exiting with 1:
             back-off 20s +1.4s
21:20:36 pod/web-9874c77d6-55l96 ! main exited with 1, start 4
21:20:36 pod/web-9874c77d6-55l96 … running +3.3s ! main keeps exiting with 1:
             back-off 40s +3.6s
21:20:36 deploy/web              ! only 0 of 1 ready (4 times in 3.7s)
