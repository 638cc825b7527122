module github.com/tidings/tidings

go 1.26
