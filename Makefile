GO ?= go
.PHONY: build bin/tidings check test test-short lint licenses compat vuln demo demo-serve demo-shards up bench bench-million bench-quick bench-serve reliability soak soak-serve state-metrics upstream suites suites-quick programs mutants simulate simulate-mutants fuzz clean

build: ## compile every module
	@.ci/each all $(GO) build -o /dev/null ./...

bin/tidings: ## the command line, for the current checkout
	$(GO) build -C cmd/tidings -o ../../bin/tidings .

check: ## what a change touches, in about a minute: its lint, and the short tests of what depends on it; REV is what to compare with
	@.ci/check $(REV)

# These packages compute: of their tests, only those with several goroutines run with the race detector, which makes the
# others five times slower.
COMPUTING := ./internal/codec ./internal/fold ./internal/journal ./internal/wire/json ./internal/wire/proto

test: ## all tests, end-to-end tests included, with the race detector where goroutines are; TIDINGS_SEED=N repeats property tests with that seed
	$(GO) test -race -timeout 30m $$($(GO) list ./... | grep -vxF "$$($(GO) list $(COMPUTING))")
	$(GO) test -race -run 'Beside|Concurrently' $(COMPUTING)
	$(GO) test $(COMPUTING)
	cd cmd/tidings && $(GO) test -race ./...
	cd controllerruntime && $(GO) test -race -short .
	cd serve && $(GO) test -race -short -skip '^TestPackedObjects$$' . ./internal/... # which computes for a minute
	@.ci/each tested $(GO) test ./...

test-short: ## the tests that need no control plane, without the race detector
	$(GO) test -short ./...
	@.ci/each nested $(GO) test -short ./...

compat: ## clientgo and controllerruntime with the newest client-go and controller-runtime, clientgo with the next client-go, the rest with an older one, and what adding the module raises
	@.ci/compat

lint: ## gofmt, vet and staticcheck (staticcheck.conf) for every module
	@out=$$(gofmt -s -l $$(git ls-files '*.go')); if [ -n "$$out" ]; then echo "gofmt -s would change:"; echo "$$out"; exit 1; fi
	@.ci/each all $(GO) vet ./...
	@staticcheck=$$($(GO) tool -modfile=.ci/tools/go.mod -n staticcheck) && .ci/each all "$$staticcheck" ./...

licenses: ## the licenses of all dependencies; fails on one that is unknown
	@.ci/licenses

vuln: ## known vulnerabilities in what is called; needs the vulnerability database, by network or VULNDB=file:///folder
	@.ci/vuln

demo: ## the main job on the embedded control plane; ends by itself
	@echo "Compiling the demo; the first time that takes a minute or two."
	$(GO) run ./examples/demo

demo-serve: ## two read replicas in front of the embedded control plane, killed under informers; ends by itself
	@echo "Compiling the demo; the first time that takes a minute or two."
	cd serve && $(GO) run ./demo

demo-shards: ## three replicas of a controller share its keys, one is killed, one added, one stopped; ends by itself
	@echo "Compiling the demo; the first time that takes a minute or two."
	$(GO) run ./examples/demoshards

up: ## keep a control plane running and print how to use it
	$(GO) run ./examples/up

BENCHFLAGS ?=
bench: ## side-by-side benchmarks with client-go; writes bench/RESULTS.md and the pictures beside it
	cd bench && $(GO) run ./cmd/bench $(BENCHFLAGS)

bench-million: ## a million pods in one process with a memory budget; client-go's memory is extrapolated
	cd bench && $(GO) run ./cmd/bench million $(BENCHFLAGS)

bench-quick: ## the same with small numbers, into a temporary folder, to see that it works
	cd bench && $(GO) run ./cmd/bench -quick -o $$(mktemp -d)/RESULTS.md

BENCHSERVE ?= -o ../bench/SERVE.md
bench-serve: ## a read replica beside the real kube-apiserver, into bench/SERVE.md; BENCHSERVE has flags, such as "-quick"
	cd serve && $(GO) run ./bench $(BENCHSERVE)

STATEMETRICS ?=
state-metrics: ## a program like kube-state-metrics on client-go's informers and on ours, into bench/STATEMETRICS.md
	cd bench && $(GO) run ./cmd/statemetrics -o STATEMETRICS.md $(STATEMETRICS)

UPSTREAM ?=
upstream: ## controllers of Kubernetes itself on our informers and on client-go's, into upstream/RESULTS.md; UPSTREAM has flags, such as "--rounds 4 --pause 5s -o ''"
	cd upstream && $(GO) run . compare -o RESULTS.md $(UPSTREAM)

SUITES ?= -o SUITES.md
suites: ## the tests of client-go, controller-runtime and Kubernetes' controllers on our packages, into upstream/SUITES.md; SUITES has arguments, such as "client-go --run Reflector"
	cd upstream && $(GO) run ./cmd/suites $(SUITES)

suites-quick: ## of client-go's tests on our packages, those of stores, queues, listers and informers that a slow machine cannot fail
	cd upstream && $(GO) run ./cmd/suites client-go --quick

PROGRAMS ?= -o PROGRAMS.md
programs: ## programs of other people on client-go and on our packages, into upstream/PROGRAMS.md; PROGRAMS has flags, such as "-programs coredns -rounds 1"
	cd upstream && $(GO) run ./cmd/programs $(PROGRAMS)

MUTANTS ?= 40
mutants: ## breaks the core in MUTANTS small ways a package and fails if the tests notice less than 95% of them; takes the better part of an hour
	@for pkg in deltafifo object reflector source internal/store workqueue internal/wire/proto internal/wire/json internal/apiwrite ondemand \
	    internal/budget internal/guard internal/usercode internal/codec internal/intake; do \
	  $(GO) run ./internal/mutants -n $(MUTANTS) ./$$pkg || failed=1; done; \
	$(GO) run ./internal/mutants -n $(MUTANTS) -tests "./internal/tree ./internal/store" ./internal/tree || failed=1; \
	$(GO) run ./internal/mutants -n $(MUTANTS) -tests "./promises ./internal/engine" ./internal/engine || failed=1; \
	$(GO) run ./internal/mutants -n $(MUTANTS) -tests "./promises ./internal/engine" . || failed=1; \
	for pkg in controller replicaset; do $(GO) run ./internal/mutants -n $(MUTANTS) ./$$pkg || failed=1; done; exit $${failed:-0}

reliability: ## how long after faults the cache is current again, and what a herd asks for; writes the tables of docs/reliability.md
	cd bench && $(GO) run ./cmd/reliability

DURATION ?= 20m
soak: ## informers against the real control plane with everything that goes wrong, for DURATION; writes docs/reliability.md
	cd bench && $(GO) run ./cmd/soak -duration $(DURATION)

FUZZTIME ?= 30s
soak-serve: ## two read replicas with 200 clients and faults for DURATION, 100,000 random requests of users with random roles, 100,000 to a replica and to its API server, and 100,000 selectors and tokens
	cd serve && $(GO) run ./soak -duration $(DURATION)
	cd serve && $(GO) test -timeout 60m -run 'TestRandomRequests$$' . -requests 100000
	cd serve && $(GO) test -timeout 180m -run 'TestDifferential$$' . -differential 100000
	cd serve && $(GO) test -timeout 60m -run 'TestBounds$$' . -bounds 100000

fuzz: ## every fuzz target for FUZZTIME each
	@for pkg in $$($(GO) list ./...); do \
	  for f in $$($(GO) test -list '^Fuzz' $$pkg 2>/dev/null | grep '^Fuzz'); do \
	    echo "$$pkg $$f"; $(GO) test -run '^$$' -fuzz "^$$f\$$" -fuzztime $(FUZZTIME) $$pkg || exit 1; \
	  done; done
	@cd serve && for pkg in . ./internal/replica; do \
	  for f in $$($(GO) test -list '^Fuzz' $$pkg | grep '^Fuzz'); do \
	    echo "serve $$pkg $$f"; $(GO) test -run '^$$' -fuzz "^$$f\$$" -fuzztime $(FUZZTIME) $$pkg || exit 1; \
	  done; done

SEEDS ?= 200
simulate: ## SEEDS simulated runs of informers, controllers and managers against a server that misbehaves, and ten times as many of reads on demand and of forms that share a watch, and 500 times as many sequences of own writes; TIDINGS_SEED=N is the first seed
	@cd internal/simulation && GOGC=400 $(GO) test -tags assertions -run '^TestSimulate$$' -count=1 -timeout 0 -args -steps 300 -seeds $(SEEDS)
	@GOGC=400 $(GO) test -v -run '^TestNeverOlder$$' -count=1 -timeout 0 ./ondemand -args -schedules $$(( 10 * $(SEEDS) ))
	@GOGC=400 $(GO) test -v -run '^TestNeverBehindOwnWrites$$' -count=1 -timeout 0 ./controller -args -sequences $$(( 500 * $(SEEDS) ))
	@GOGC=400 $(GO) test -v -run '^TestViewsAreWatchesOfTheirOwn$$' -count=1 -timeout 0 ./clientgo -args -schedules $$(( 10 * $(SEEDS) ))
	@cd controllerruntime && GOGC=400 $(GO) test -v -run '^TestOneWatchUnderFaults$$' -count=1 -timeout 0 . -args -schedules $$(( 10 * $(SEEDS) ))

simulate-mutants: ## breaks the code on purpose, one change after the other, and shows that the simulation finds each
	cd internal/simulation && GOGC=400 $(GO) test -v -run '^TestMutants$$' -count=1 -timeout 0 -args -mutants

clean:
	rm -rf bin
