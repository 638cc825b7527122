GO ?= go
MODULES := . controlplane bench

.PHONY: build test lint demo up bench fuzz vuln clean

build: ## compile every module
	@for m in $(MODULES); do echo "build $$m"; (cd $$m && $(GO) build -o /dev/null ./...) || exit 1; done

test: ## all tests, race detector on, end-to-end tests included
	$(GO) test -race -timeout 30m ./...
	cd controlplane && $(GO) test ./...
	cd bench && $(GO) test ./...

lint: ## gofmt, vet and staticcheck for every module
	@out=$$(gofmt -l $$(git ls-files '*.go')); if [ -n "$$out" ]; then echo "gofmt would change:"; echo "$$out"; exit 1; fi
	@for m in $(MODULES); do echo "vet $$m"; (cd $$m && $(GO) vet ./...) || exit 1; done
	$(GO) tool staticcheck ./...

demo: ## the main job on the embedded control plane; ends by itself
	$(GO) run ./examples/demo

up: ## keep a control plane running and print how to use it
	$(GO) run ./examples/up

bench: ## side-by-side benchmarks with client-go; writes bench/RESULTS.md
	cd bench && $(GO) run ./cmd/bench

FUZZTIME ?= 30s
fuzz: ## every fuzz target for FUZZTIME each
	@for pkg in $$($(GO) list ./...); do \
	  for f in $$($(GO) test -list '^Fuzz' $$pkg 2>/dev/null | grep '^Fuzz'); do \
	    echo "$$pkg $$f"; $(GO) test -run '^$$' -fuzz "^$$f\$$" -fuzztime $(FUZZTIME) $$pkg || exit 1; \
	  done; done

vuln: ## known vulnerabilities in what is called (needs the vulnerability database)
	$(GO) tool govulncheck ./...

clean:
	rm -rf bin
