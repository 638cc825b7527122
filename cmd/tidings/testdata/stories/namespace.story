05:00:11 ns/namespace         deleted
05:00:16 namespace deploy/web ! only 2 of 3 ready
05:00:16 namespace pod/web-7db6c6f4cd-m2m77 stopping → gone +0.3s
05:00:16 namespace pod/web-7db6c6f4cd-plb4d stopping → gone +0.3s
05:00:16 namespace pod/web-7db6c6f4cd-qpwdx stopping → gone +0.3s
05:00:22 ns/namespace         ! Some content in the namespace has finalizers
             remaining: example.com/archive in 1 resource instances +10s
05:00:22 namespace rs/web-7db6c6f4cd deleted
05:00:22 namespace deploy/web … deleted
05:00:22 namespace cm/held    deleted ! held by the finalizer
             example.com/archive, set by archiver +7.0s
05:00:29 namespace cm/held    … gone +7.0s
05:00:35 ns/namespace         … gone +23s
