# Fairway. `make help` lists what there is to do. Go and Python's pip are all that is needed.

GO      ?= go
ARGS    ?=
MODULE  := fairway
# What is built does not depend on the folder: every clone and worktree of this machine shares what one of them compiled. Half of the time
# that compiling takes otherwise goes into tables for debuggers, and into the compiler's own garbage: `go build` by itself makes the former.
# Programs have no symbols, which are a fifth of their size; stack traces and profiles need none. With grpcnotrace gRPC leaves out pages
# that are filled in by html/template. That would have the linker keep all methods: see TestLinkersDropMethods in internal/lint.
export GOFLAGS := $(strip $(shell $(GO) env GOFLAGS) -trimpath -tags=grpcnotrace -gcflags=all=-dwarf=false '-ldflags=-s -w' '-toolexec=env GOGC=400')
# What the programs say of themselves, out of git: the tag, or fairway.go's version without one; the commit, and its date: two builds are equal.
VERSION  = $(or $(patsubst v%,%,$(shell git describe --tags --match 'v[0-9]*' --dirty 2>/dev/null)),$(shell sed -n 's/^const Release = "\(.*\)"$$/\1/p' fairway.go))
COMMIT   = $(shell git rev-parse --short=12 HEAD 2>/dev/null)
DATE     = $(or $(shell TZ=UTC0 git log -1 --format=%cd --date=format-local:%Y-%m-%dT%H:%M:%SZ 2>/dev/null),1970-01-01T00:00:00Z)
STAMP    = -ldflags='-s -w -X fairway.Version=$(VERSION) -X fairway.Commit=$(COMMIT) -X fairway.Date=$(DATE)'
# What images are called: <HUB>/pilot:<VERSION>. This name is no registry's, so that nothing is pulled by it.
HUB      ?= fairway.internal
ARCHS    ?= amd64 arm64
PLATFORMS ?= $(ARCHS:%=linux-%) darwin-arm64 windows-amd64
RELEASE  = $(GO) run -C tools/release . # the tool; its folder is where paths begin

LINTER  := 2.15.0
LINT    := .cache/golangci-lint-v$(LINTER)/golangci-lint

# The race detector needs a C compiler; where Go found none, the same tests run without it.
RACE    := $(if $(filter 1,$(shell $(GO) env CGO_ENABLED)),-race)

# Live tests spend their time in Envoy, API servers and the kernel, where the race detector sees nothing, and histories in thousands of control
# planes; everything else runs under it. What measures how long an attacked program takes has the machine to itself.
LIVE    := $(MODULE)/test/histories% $(MODULE)/test/envoy% $(MODULE)/test/agent% $(MODULE)/test/identity% $(MODULE)/test/intercept% $(MODULE)/test/mesh% $(MODULE)/test/relay% $(MODULE)/test/names% $(MODULE)/test/interpret% $(MODULE)/test/logs% $(MODULE)/test/walk% $(MODULE)/test/operate% $(MODULE)/examples/demo
TIMED   := $(MODULE)/test/attack
# Tests that run real servers (Kubernetes, Consul, Eureka, ZooKeeper, etcd): whole packages, and some of others.
SERVERS := $(MODULE)/test/platform% $(MODULE)/test/mixed $(MODULE)/test/release
# This builds the control plane once more, with coverage counters, in minutes.
COUNTED := $(MODULE)/test/way
# The tests of these rooms run in one goroutine, which is held by a test: the race detector would see nothing, and makes them three times as long.
SERIAL  := $(MODULE)/internal/envoy% $(MODULE)/internal/inject $(MODULE)/internal/inherited $(MODULE)/internal/lint $(MODULE)/internal/mesh
SERVED  := TestCluster|TestRegistries|TestTwins|TestDubbo|TestKeep|TestShows/Consul

# `make lint` and `make check` vet. Here it would read all dependencies, for each form in which they are compiled.
TEST    := $(GO) test -vet=off

ALL      = $(shell $(GO) list ./...)
FORMAT   = $(shell $(GO) list -f '{{.Dir}}' ./...)

.DEFAULT_GOAL := build
FUZZTIME ?= 60s

# The programs that the demo runs.
DEMO     := ./cmd/pilot-discovery ./cmd/pilot-agent

STEPS    ?= 20000
SOAK     ?= 10m

.PHONY: help build programs release images push demo demo-consul demo-kubernetes registries test test-rooms test-attack test-live test-platforms check bench way fuzz mutants soak lint fmt schemas envoy kube conformance iptables clean

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 18

build: schemas ## the three programs, into bin/
	$(GO) build $(STAMP) -o bin/ ./cmd/...

programs: schemas # static programs of each of PLATFORMS=, into dist/bin/<os>-<architecture>: all three for Linux, else pilotctl
	@rm -rf dist/bin; for p in $(PLATFORMS); do case $$p in linux-*) what=./cmd/... ;; *) what=./cmd/pilotctl ;; esac; mkdir -p dist/bin/$$p; echo "dist/bin/$$p"; \
		CGO_ENABLED=0 GOOS=$${p%%-*} GOARCH=$${p#*-} $(GO) build $(STAMP) -o dist/bin/$$p/ $$what || exit 1; done

release: programs ## packages (deb, rpm), archives, the chart, a bill of materials and checksums of PLATFORMS=, into dist/release
	rm -rf dist/release
	@$(RELEASE) packages -version $(VERSION) -commit "$(COMMIT)" -date $(DATE) -programs ../../dist/bin -chart ../../deploy/chart \
		-files pack/files -license ../../LICENSE -readme ../../README.md -to ../../dist/release

images: PLATFORMS = $(ARCHS:%=linux-%)
images: programs ## OCI images of the three programs for ARCHS= (amd64 arm64), named <HUB>/<image>:<version>, into dist/images; needs no container engine
	@$(RELEASE) images -version $(VERSION) -commit "$(COMMIT)" -date $(DATE) -programs ../../dist/bin -debian ../../.cache/debian -hub $(HUB) \
		-arch $$(echo $(ARCHS) | tr ' ' ,) $$(for a in $(ARCHS); do echo -envoy $$a=$$($(GO) run ./build/envoy -arch $$a); done) -to ../../dist/images

push: ## copy what make images built to a registry: HUB=registry.example/mesh; credentials are those of docker login
	@$(RELEASE) push -images ../../dist/images -hub $(HUB) -version $(VERSION)

demo: schemas envoy ## a small mesh on loopback, with real traffic; ARGS=--once leaves when it has shown everything
	@$(GO) build -o bin/ $(DEMO)
	@$(GO) build -o .demo/bin/ ./examples/demo ./examples/bookinfo/service
	@.demo/bin/demo $(ARGS)

demo-consul: schemas envoy ## the same with a real Consul in which the bookshop is registered (built when it is first needed, in minutes); ARGS=--once
	@$(GO) build -o bin/ $(DEMO)
	@$(GO) build -o .demo/bin/ ./examples/demo ./examples/bookinfo/service
	@.demo/bin/demo --consul $(ARGS)

demo-kubernetes: schemas envoy kube ## a mesh in a cluster of this machine's own, with real pods (as root) that run the images; ARGS=--once leaves when it has shown everything
	@$(GO) build -o .demo/bin/demo-kubernetes ./examples/kubernetes
	@if command -v apt-get >/dev/null && command -v dpkg-deb >/dev/null; then \
		$(MAKE) --no-print-directory images ARCHS=$$($(GO) env GOARCH) && FAIRWAY_IMAGES=$(CURDIR)/dist/images .demo/bin/demo-kubernetes $(ARGS); \
	else echo "images cannot be built here (apt is missing): pods run the programs as they are" >&2; .demo/bin/demo-kubernetes $(ARGS); fi

test: ## what needs Go and Envoy: unit, golden, scenario and attack tests, random histories, live traffic
	@$(MAKE) --no-print-directory -k test-rooms test-attack test-live

test-rooms: schemas envoy # the part of make test that needs the processors: under the race detector where there are goroutines
	@status=0; export FAIRWAY_SERVED='$(SERVED)'; \
	$(TEST) $(RACE) -timeout 20m $(filter-out $(LIVE) $(TIMED) $(SERVERS) $(COUNTED) $(SERIAL),$(ALL)) || status=1; \
	$(TEST) -timeout 20m $(filter $(SERIAL),$(ALL)) || status=1; \
	$(GO) test -C tools/release ./... || status=1; \
	exit $$status

test-attack: schemas envoy # the part that measures times
	@$(TEST) $(RACE) -timeout 20m $(TIMED)

test-live: schemas envoy # the part that waits for Envoy
	@FAIRWAY_SERVED='$(SERVED)' $(TEST) -timeout 20m $(filter $(LIVE),$(ALL))

test-platforms: schemas envoy kube registries ## what needs real servers: Kubernetes, etcd, Consul, Eureka, ZooKeeper (built once a machine); the lengths of ways
	@status=0; \
	$(TEST) -timeout 30m $(filter $(SERVERS) $(COUNTED),$(ALL)) || status=1; \
	$(TEST) -timeout 20m -run '$(SERVED)' ./examples/demo ./internal/ctl ./test/histories ./test/mesh ./test/walk || status=1; \
	exit $$status

check: schemas ## seconds: vet, and the tests of the rooms, without Envoy
	$(GO) vet ./...
	$(GO) test -short ./build/... ./cmd/... ./internal/...

bench: build ## what a change costs, as a table and as JSON; ARGS= are test/bench's
	$(GO) run ./test/bench $(ARGS)

sizing: build ## the tables of docs/operate/sizing.md: memory and processor of a control plane for small to large meshes; ARGS= are test/bench's
	$(GO) run ./test/bench -sizing $(ARGS)

way: schemas ## how much code runs for a change, from its source to the proxy's acknowledgement; ARGS=-v lists the functions
	@$(GO) run ./test/way $(ARGS)

fuzz: schemas ## every decoder of what others wrote, FUZZTIME= (60s) each; what is found is kept in testdata/fuzz of its room
	@status=0; for file in $$(grep -rl '^func Fuzz' --include='*_test.go' internal test); do for target in $$(sed -n 's/^func \(Fuzz[A-Za-z0-9_]*\).*/\1/p' $$file); do \
		echo "== $$(dirname $$file) $$target"; \
		$(GO) test ./$$(dirname $$file) -run '^$$' -fuzz "^$$target$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 1s || status=1; \
	done; done; exit $$status

mutants: schemas ## N= (40) mistakes of one token in PKG=, one at a time, by SEED= (1) or those of AT=FILE:LINE; prints the ones that the tests of TESTS= (PKG) do not notice
	@test -n "$(PKG)" || { echo "make mutants needs PKG=, for example PKG=./internal/door" >&2; exit 2; }
	@$(GO) run ./build/mutants -n $(or $(N),40) -seed $(or $(SEED),1) -at "$(AT)" -tests "$(TESTS)" $(ARGS) $(PKG)

soak: schemas envoy kube registries ## hours: edits under real traffic for SOAK= (10m); random histories of the whole program, STEPS= (20000) in one process and a fortieth of it over programs, over registries, over two control planes with shared state, and over a cluster, whose control planes are killed too; SEED= (1) is the first
	$(GO) test ./test/envoy -count 1 -timeout 6h -v -run 'TestSoak$$' -soak $(SOAK) -seed $(or $(SEED),1)
	$(GO) test ./test/histories -count 1 -timeout 6h -run InProcess -steps $(STEPS) -seed $(or $(SEED),1)
	$(GO) test ./test/histories -count 1 -timeout 6h -run 'TestPrograms$$' -steps $$(( $(STEPS) / 40 )) -seed $(or $(SEED),1)
	$(GO) test ./test/histories -count 1 -timeout 6h -run 'Registries$$' -steps $$(( $(STEPS) / 40 )) -seed $(or $(SEED),1)
	$(GO) test ./test/histories -count 1 -timeout 6h -run 'Cluster$$' -steps $$(( $(STEPS) / 40 )) -seed $(or $(SEED),1)
	$(GO) test ./test/histories -count 1 -timeout 6h -run RegistriesPrograms -steps $$(( $(STEPS) / 100 )) -seed $(or $(SEED),1)
	$(GO) test ./test/histories -count 1 -timeout 6h -run Twins -steps $$(( $(STEPS) / 40 )) -seed $(or $(SEED),1)
	$(GO) test ./test/platform/registry -count 1 -timeout 1h -v -run '^TestConformance$$/^alone$$' -services 5000
	FAIRWAY_KILLS=60 $(GO) test ./test/platform/state -count 1 -timeout 1h -v -run TestKills
	$(GO) test ./test/histories -count 1 -timeout 6h -run ClusterPrograms -steps $$(( $(STEPS) / 100 )) -seed $(or $(SEED),1)

lint: schemas ## golangci-lint where it can be had, else vet; gofmt, and go.mod as it would be written
	@test -x $(LINT) || GOBIN=$(CURDIR)/$(dir $(LINT)) $(GO) install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v$(LINTER) \
		|| echo "golangci-lint cannot be had here: gofmt and vet alone" >&2
	$(GO) mod tidy -diff
	@unformatted=$$(gofmt -l $(FORMAT)); test -z "$$unformatted" || { echo "not formatted (make fmt):"; echo "$$unformatted"; exit 1; }
	@if test -x $(LINT); then $(LINT) run ./...; else $(GO) vet ./...; fi

fmt: ## gofmt everything
	gofmt -w -s $(FORMAT)

schemas: ## take the CRDs and their schemas out of the istio.io/api module
	@$(GO) generate ./internal/config/... ./deploy

envoy: ## obtain the pinned Envoy, unless ENVOY=/path names another
	@$(GO) run ./build/envoy >/dev/null

registries: ## obtain the Consul, Eureka and ZooKeeper that tests run (minutes, once a machine); without Java those of it are left out
	@$(GO) run ./build/consul >/dev/null
	@if command -v java >/dev/null && command -v mvn >/dev/null; then $(GO) run ./build/eureka >/dev/null && $(GO) run ./build/zookeeper >/dev/null; \
	else echo "Java and Maven cannot be had here: tests of Eureka and ZooKeeper are skipped" >&2; fi

kube: ## build the Kubernetes that tests run (minutes, once a machine), unless KUBESERVER=/path names another
	@$(GO) run ./build/kube >/dev/null

conformance: ## build the conformance suite of the Gateway API (minutes, once a machine)
	@$(GO) run ./build/conformance >/dev/null

iptables: ## where they are missing and root may: iptables' programs, without which its half of the interception tests is skipped
	@command -v iptables-restore >/dev/null || { test "$$(id -u)" = 0 && command -v apt-get >/dev/null && \
		{ timeout 120 apt-get install -qq -y iptables || timeout 120 apt-get update -qq && timeout 120 apt-get install -qq -y iptables; } >/dev/null 2>&1; } || \
		echo "iptables cannot be had here: tests that need its programs are skipped" >&2

clean: ## what building, testing and the demo left; the downloads in .cache stay
	rm -rf bin dist .demo .bench
