21:55:04 deploy/web               deleted, with 1 rs, 3 pods +0.3s
