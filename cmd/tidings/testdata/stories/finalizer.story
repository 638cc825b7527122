21:54:47 cm/held              deleted ! held by the finalizer
             example.com/archive, set by archiver +7.0s
21:54:54 cm/held              … gone +7.0s
