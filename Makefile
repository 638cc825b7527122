GO ?= go
MODULES := . controlplane bench

.PHONY: build test test-short lint licenses vuln demo up bench bench-million bench-quick fuzz clean

build: ## compile every module
	@for m in $(MODULES); do echo "build $$m"; (cd $$m && $(GO) build -o /dev/null ./...) || exit 1; done

test: ## all tests, race detector on, end-to-end tests included; TIDINGS_SEED=N repeats property tests with that seed
	$(GO) test -race -timeout 30m ./...
	cd controlplane && $(GO) test ./...
	cd bench && $(GO) test ./...

test-short: ## the tests that need no control plane, without the race detector
	$(GO) test -short ./...
	cd bench && $(GO) test -short ./...

lint: ## gofmt, vet and staticcheck (staticcheck.conf) for every module
	@out=$$(gofmt -s -l $$(git ls-files '*.go')); if [ -n "$$out" ]; then echo "gofmt -s would change:"; echo "$$out"; exit 1; fi
	@staticcheck=$$($(GO) tool -n staticcheck) || exit 1; \
	for m in $(MODULES); do echo "lint $$m"; (cd $$m && $(GO) vet ./... && "$$staticcheck" ./...) || exit 1; done

licenses: ## the licenses of all dependencies; fails on one that is unknown
	@.ci/licenses $(MODULES)

vuln: ## known vulnerabilities in what is called; needs the vulnerability database, by network or VULNDB=file:///folder
	@.ci/vuln $(MODULES)

demo: ## the main job on the embedded control plane; ends by itself
	@echo "Compiling the demo; the first time that takes a minute or two."
	$(GO) run ./examples/demo

up: ## keep a control plane running and print how to use it
	$(GO) run ./examples/up

BENCHFLAGS ?=
bench: ## side-by-side benchmarks with client-go; writes bench/RESULTS.md and the pictures beside it
	cd bench && $(GO) run ./cmd/bench $(BENCHFLAGS)

bench-million: ## a million pods in one process with a memory budget; client-go's memory is extrapolated
	cd bench && $(GO) run ./cmd/bench million $(BENCHFLAGS)

bench-quick: ## the same with small numbers, into a temporary folder, to see that it works
	cd bench && $(GO) run ./cmd/bench -quick -o $$(mktemp -d)/RESULTS.md

FUZZTIME ?= 30s
fuzz: ## every fuzz target for FUZZTIME each
	@for pkg in $$($(GO) list ./...); do \
	  for f in $$($(GO) test -list '^Fuzz' $$pkg 2>/dev/null | grep '^Fuzz'); do \
	    echo "$$pkg $$f"; $(GO) test -run '^$$' -fuzz "^$$f\$$" -fuzztime $(FUZZTIME) $$pkg || exit 1; \
	  done; done

clean:
	rm -rf bin
