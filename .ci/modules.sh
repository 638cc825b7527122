# The modules of this repository, to be sourced from the scripts beside this file.
tested=(controlplane bench upstream controllerruntime serve serve/clients) # without the race detector
nested=(cmd/tidings "${tested[@]}")
modules=(. "${nested[@]}")
released=(. controlplane controllerruntime serve cmd/tidings) # the others need a checkout

# in_module FOLDER COMMAND... runs a command in a module's folder.
in_module() (
	cd "$1"
	"${@:2}"
)
