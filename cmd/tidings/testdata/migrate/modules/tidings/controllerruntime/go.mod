module github.com/tidings/tidings/controllerruntime

go 1.26
