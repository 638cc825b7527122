# The modules of this repository, to be sourced from the scripts beside this file.
nested=(controlplane bench upstream controllerruntime serve)
modules=(. "${nested[@]}")

# in_module FOLDER COMMAND... runs a command in a module's folder, with the build tags that the module needs.
in_module() (
	cd "$1"
	if [ "$1" = upstream ]; then # its Kubernetes libraries are older
		export GOFLAGS="${GOFLAGS:-} -tags=clientgo_0_36"
	fi
	"${@:2}"
)
