21:20:47 deploy/web           image nginx:1.27 → missing  by kubectl-set
21:20:47 rs/web-5f46476bb4    new: revision 2, 1 replica
21:20:47 pod/web-5f46476bb4-s97bv on node-2 +0.2s ! cannot pull nginx:missing:
             not found +0.9s
21:20:51 deploy/web               image nginx:missing → 1.27  by kubectl-set
21:20:55 deploy/web               rolled out in 4.1s: 3 of 3 ready
21:20:55 pod/web-5f46476bb4-s97bv ! cannot pull nginx:missing: not found (4
             times in 7.2s)
21:20:53 rs/web-5f46476bb4        1 → 0: web-5f46476bb4-s97bv gone +2.5s
