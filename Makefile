# Everything here needs Go, git and make, and nothing else; only images and the browser's tests need more. `make` alone lists the targets.

SHELL := /usr/bin/env bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.NOTPARALLEL:

# One build cache for binaries and tests of all clones, with or without a C compiler; no workspace of the user's in between.
# No binary here has tables of debuggers, so compiling does not generate them.
export CGO_ENABLED ?= 0
export GOWORK := off
export GOFLAGS := $(strip $(GOFLAGS) -trimpath -buildvcs=false -gcflags=all=-dwarf=false)

VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
COMMIT ?= $(shell git rev-parse HEAD 2>/dev/null || echo unknown)
IMAGE ?= berth:$(VERSION)
ENGINE ?= $(or $(firstword $(foreach engine,docker podman buildah,$(shell $(engine) info >/dev/null 2>&1 && echo $(engine)))),$(error \
	none of docker, podman and buildah runs here: install one of them, or name another program with the same build command in ENGINE))
RELEASE_SYSTEMS ?= linux-amd64 linux-arm64 darwin-amd64 darwin-arm64 windows-amd64 windows-arm64
RELEASE_FOLDER ?= bin/release
TEST_PARALLEL ?= 2
TEST_TIMEOUT ?= 20m
# Linking the tests without the tables of debuggers takes half of the time.
TEST_FLAGS = -ldflags=-s -timeout $(TEST_TIMEOUT)
# The line of go test for each package, and at the end what failed, and the totals.
GOTESTSUM = bin/tools/gotestsum --format standard-quiet
BENCH_COUNT ?= 6
FUZZTIME ?= 5s
LOAD_SIZES ?= 100x100,1000x1000
MUTANTS ?= 200
MUTANT_SEED ?= 0
MUTANT_PACKAGES ?= ./pkg/scheduler/... ./pkg/decisions ./pkg/inventory ./pkg/lifecycle ./pkg/changes ./pkg/filters ./pkg/clustercel ./pkg/prioritizers ./controllers

APP := github.com/berth-dev/berth/cmd/berth/app
# Without these settings, a third of the time of compilers goes to collecting their garbage.
GO_BUILD = GOGC=off GOMEMLIMIT=1GiB go build
BUILD = $(GO_BUILD) -ldflags="-s -w -X $(APP).version=$(VERSION) -X $(APP).commit=$(COMMIT)"
K8S_VERSION = $(shell cd tools/hub && go list -m -f '{{.Version}}' k8s.io/kubernetes)
K8S_NUMBERS = $(subst ., ,$(K8S_VERSION:v%=%))
K8S_STAMP = k8s.io/component-base/version
K8S_LDFLAGS = -X $(K8S_STAMP).gitVersion=$(K8S_VERSION) -X $(K8S_STAMP).gitMajor=$(word 1,$(K8S_NUMBERS)) -X $(K8S_STAMP).gitMinor=$(word 2,$(K8S_NUMBERS))

# What the chart has verbatim, beside the CRDs.
CHART_PARTS := rbac/role.yaml rbac/user_roles.yaml admission/annotations.yaml admission/changes.yaml admission/cluster-sets.yaml admission/clusters.yaml admission/editor/editor.yaml webhook/manifests.yaml validation/manifests.yaml \
	multicluster/role.yaml multicluster/crd.yaml reporter/role.yaml explore/deployment.yaml explore/service.yaml generator/deployment.yaml generator/role.yaml generator/service.yaml generator-argocd/role.yaml monitoring/service_monitor.yaml monitoring/rules.yaml dashboard/berth.json

# The folders with files that make manifests generates.
GENERATED := api config docs/plugins docs/reference pkg/explore/page/states.js pkg/explore/page/types.js charts

# The API server in KUBEBUILDER_ASSETS is used if that is set, else the one built here; the garbage collector and kubectl are always built here.
HUB := bin/hub/etcd bin/hub/kube-apiserver bin/hub/gc bin/hub/kubectl
HUB_TOOLS := bin/hub/gc bin/hub/kubectl
TEST_HUB := $(if $(KUBEBUILDER_ASSETS),$(HUB_TOOLS),$(HUB))
KUBEBUILDER_ASSETS ?= $(CURDIR)/bin/hub
export KUBEBUILDER_ASSETS

.PHONY: help build hub run image release clients test test-unit test-hub typecheck browser verify manifests lint bench load chaos world fuzz mutants clean

##@ Use

help: # Show the list of targets
	@awk 'BEGIN {FS = ":.*## "} /^##@/ {printf "\n%s\n", substr($$0, 5)} \
		/^[a-z-]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' Makefile

build: ## Build bin/berth, and bin/kubectl-placement, the same under another name
	@echo "building berth $(VERSION)"
	@mkdir -p bin
	@$(BUILD) -o bin/.berth ./cmd/berth
	@# An unchanged binary keeps its time, by which go test knows whether the tests that run it must run again.
	@cmp -s bin/.berth bin/berth || { cp bin/.berth bin/berth.new && mv bin/berth.new bin/berth; }
	@# The same program under the name of a kubectl plugin, and under the one that kubectl asks for completions.
	@ln -f bin/berth bin/kubectl-placement && ln -f bin/berth bin/kubectl_complete-placement

hub: $(HUB) ## Build the local hub: etcd, kube-apiserver, a garbage collector and kubectl, into bin/hub

run: build $(filter-out $(HUB_TOOLS),$(TEST_HUB)) ## Start a hub with Berth and the samples on this machine; Ctrl-C stops it
	@trap 'kill $$! 2>/dev/null || true' EXIT; $(BUILD_TOOLS) >/dev/null & bin/berth up --samples

# The first decision needs neither the garbage collector nor kubectl: they are built while the hub runs.
BUILD_TOOLS = exec nice $(MAKE) $(HUB_TOOLS)

image: export GOOS := linux
image: build bin/hub/kubectl ## Build the image IMAGE with docker, podman or buildah (ENGINE), and write bin/install.yaml, which installs it
	@$(ENGINE) build --platform linux/$$(go env GOARCH) --tag $(IMAGE) .
	$(call write_install,bin/install.yaml)

##@ Develop

# The folder of the suite that make test-hub runs.
SUITE_FOLDER = $(if $(SUITE),$(firstword $(wildcard test/integration/$(SUITE) test/$(SUITE))))

# A new commit alone changes neither bin/berth nor the results of the tests that run it.
test test-hub browser: export VERSION := v0.0.0-test
test test-hub browser: export COMMIT := test

# Property tests draw the same cases each time, so that a commit passes or fails always; with 0 they draw new ones.
export RAPID_SEED ?= 1

test-unit: bin/tools/gotestsum ## Run the tests of the main module that need no hub
	@KUBEBUILDER_ASSETS=$(CURDIR)/none $(GOTESTSUM) -- $(TEST_FLAGS) -vet=off $$(go list ./... | grep -vE '/test/(integration|load|world/server)(/|$$)')

test-hub: build $(TEST_HUB) bin/tools/gotestsum ## Run one suite of test/integration, or of test, on a real API server (SUITE), or its specs with a text (FOCUS)
	@$(if $(SUITE_FOLDER),,echo "SUITE is one of: $(notdir $(wildcard test/integration/*)) argocd flux install load ocm"; exit 2)
	@$(GOTESTSUM) --raw-command -- go -C $(SUITE_FOLDER) test -json $(TEST_FLAGS) -count 1 . $(if $(FOCUS),-ginkgo.focus='$(FOCUS)')

test: build $(TEST_HUB) bin/tools/gotestsum ## Run every test
	@command -v buildah >/dev/null || echo "buildah is not on the PATH: the tests of the image are skipped"
	@echo "testing (the first time compiles for several minutes)"
	@$(GOTESTSUM) --jsonfile-timing-events bin/tests.json --post-run-command "bin/tools/gotestsum tool slowest --num 10 --threshold 5s --jsonfile bin/tests.json" \
		--raw-command -- test/all.sh $(TEST_FLAGS)

typecheck: test/explore/node_modules/.package-lock.json ## Check the types of the page of berth explore, which needs Node.js and npm
	@test/explore/node_modules/.bin/tsc -p test/explore

browser: build $(TEST_HUB) bin/tools/gotestsum test/explore/node_modules/.package-lock.json ## Test the page of berth explore in headless Chromium, which must be on the PATH with chromedriver, Node.js and npm
	@BERTH_INPUTS="$$({ chromium --version; chromedriver --version; cat bin/berth $(TEST_HUB); } | cksum)" \
		$(GOTESTSUM) --raw-command -- go -C test/explore test -json $(TEST_FLAGS) ./...

verify: manifests lint test ## Generate, lint and test, then demand a clean tree
	@test -z "$$(git status --porcelain)" || { git status --short; git --no-pager diff --stat; \
		echo "verify: the tree has changes: commit them, generated files too"; exit 1; }
	@echo "verify: generated files, lint, tests and tree are fine"

manifests: bin/tools/controller-gen bin/tools/crdversions bin/tools/plugindocs bin/tools/configschema ## Generate deep copies, CRDs, RBAC, webhooks, the configuration's schema, the plugins' arguments and docs/reference from the code, and what the chart has of them
	@rm -rf bin/before && mkdir bin/before && cp -a --parents $(GENERATED) bin/before
	@bin/tools/controller-gen object crd paths=./api/v1alpha1 paths=./api/berth/v1alpha1 output:crd:dir=bin/crd
	@bin/tools/crdversions bin/crd config/crd/bases
	@bin/tools/configschema config/schema/placementschedulerconfiguration.json
	@bin/tools/plugindocs docs/plugins pkg/filters pkg/prioritizers pkg/lifecycle
	@go run ./test/docs/reference
	@echo "# Code generated by make manifests from the markers in controllers. DO NOT EDIT." >bin/generated.txt
	@bin/tools/controller-gen rbac:roleName=berth,headerFile=bin/generated.txt paths=./controllers/... output:rbac:dir=config/rbac
	@echo "# Code generated by make manifests from the markers in pkg/admission. DO NOT EDIT." >bin/generated.txt
	@bin/tools/controller-gen webhook:headerFile=bin/generated.txt paths=./pkg/admission output:webhook:dir=config/webhook
	@bin/tools/controller-gen webhook:headerFile=bin/generated.txt paths=./pkg/admission/validation output:webhook:dir=config/validation
	@for part in $(CHART_PARTS); do mkdir -p charts/berth/files/$$(dirname $$part) && cp config/$$part charts/berth/files/$$part; done
	@mkdir -p charts/berth/files/crd && cp config/crd/bases/*.yaml charts/berth/files/crd
	@# What did not change keeps its time, by which go test knows whether tests that read it must run again.
	@find $(GENERATED) -depth | while read -r path; do if [[ -d $$path ]] || cmp -s "$$path" "bin/before/$$path"; then \
		touch -cr "bin/before/$$path" "$$path" 2>/dev/null || true; fi; done; rm -rf bin/before

lint: bin/tools/golangci-lint ## Lint, formatting and the direction of imports included
	@echo "linting"
	@GOGC=400 bin/tools/golangci-lint run --allow-parallel-runners ./...

bench: bin/tools/benchstat ## Run the in-process benchmarks and compare them with the run before
	@mkdir -p bin/bench
	@go test -run '^$$' -bench . -benchmem -count $(BENCH_COUNT) -timeout 60m ./... | tee bin/bench/new.txt
	@bin/tools/benchstat $$(ls bin/bench/last.txt 2>/dev/null) bin/bench/new.txt
	@mv bin/bench/new.txt bin/bench/last.txt
	@go run ./test/bench/growth -plots bin/bench

load: build $(TEST_HUB) ## Measure Berth on a real API server against a plain client, in sizes of clusters x Placements (LOAD_SIZES)
	@mkdir -p bin/load
	@go run ./test/load -controller bin/berth -sizes $(LOAD_SIZES) -json bin/load/$(LOAD_SIZES).json

chaos: build $(TEST_HUB) bin/tools/gotestsum ## Break replicas, hub, requests and leases on a real API server for some minutes, and soak for BERTH_SOAK=30m
	@BERTH_CHAOS=long $(GOTESTSUM) -- -count 1 -timeout $(if $(BERTH_SOAK),150m,15m) ./test/integration/chaos

world: ## Run the controller in SEEDS simulated worlds of HOURS hours, with pauses CALM times as long, from SEED on; a broken law prints the shortest story
	@go test ./test/world -run TestWorld -v -count=1 -timeout 0 -world.seed=$(or $(SEED),1) -world.seeds=$(or $(SEEDS),$(if $(SEED),1,100)) -world.hours=$(or $(HOURS),1) -world.calm=$(or $(CALM),1)

fuzz: ## Fuzz every fuzz target for a few seconds (FUZZTIME)
	@log="$$(mktemp)"; trap 'rm -f "$$log"' EXIT; { git grep -oE '^func Fuzz[A-Za-z0-9_]+' -- '*_test.go' || echo "no fuzz targets" >&2; } \
		| sed 's|/[^/]*_test.go:func | |' \
		| while read -r dir name; do \
			fuzz() { go test -run '^$$' -fuzz "^$$name\$$" -fuzztime $(FUZZTIME) "./$$dir" | tee "$$log"; }; \
			echo "fuzzing $$name in $$dir"; fuzz || { if grep -q 'Failing input' "$$log"; then exit 1; fi; \
				echo "no input failed, the time ran out: once more"; fuzz; }; done

mutants: bin/tools/mutants ## Change the code in random places (MUTANTS, MUTANT_SEED, MUTANT_PACKAGES) and show which changes unit, property and golden tests miss
	@bin/tools/mutants -n $(MUTANTS) -seed $(MUTANT_SEED) $(MUTANT_PACKAGES)

clean: ## Remove what was built; a local hub's data in .berth stays
	@rm -rf bin

# $(call write_install,FILE) renders config/default with the image IMAGE.
define write_install
@mkdir -p bin/install
@printf '%s\n' 'resources: [../../config/default]' 'images:' '- name: berth' '  newName: $(IMAGE:%:$(lastword $(subst :, ,$(IMAGE)))=%)' '  newTag: $(lastword $(subst :, ,$(IMAGE)))' >bin/install/kustomization.yaml
@bin/hub/kubectl kustomize bin/install >$(1)
endef

# What a release has, in RELEASE_FOLDER: for each system of RELEASE_SYSTEMS an archive of the program and its bill of materials, the manifest of
# kubectl placement for krew, an image for all Linux systems, install.yaml, which installs it, the chart, and checksums.
# .github/workflows/release.yaml runs it, and signs the checksums. It needs buildah.
release: CHART = $(RELEASE_FOLDER)/berth
release clients: export SOURCE_DATE_EPOCH = $(shell git log -1 --format=%ct)
release: clients bin/hub/kubectl
	@buildah manifest create $(IMAGE) >/dev/null
	@for arch in $(patsubst linux-%,%,$(filter linux-%,$(RELEASE_SYSTEMS))); do \
		GOARCH=$$arch $(MAKE) --no-print-directory image ENGINE=buildah IMAGE=$(IMAGE)-$$arch; \
		buildah manifest add $(IMAGE) $(IMAGE)-$$arch >/dev/null; done
	@buildah manifest push --quiet --all $(IMAGE) oci-archive:$(RELEASE_FOLDER)/berth-$(VERSION)-image.tar
	$(call write_install,$(RELEASE_FOLDER)/install.yaml)
	@cp -r charts/berth $(CHART)
	@sed -e 's/^version: .*/version: $(VERSION:v%=%)/' -e 's/^appVersion: .*/appVersion: $(VERSION)/' charts/berth/Chart.yaml >$(CHART)/Chart.yaml
	@sed -e 's|^  repository: berth$$|  repository: $(IMAGE:%:$(VERSION)=%)|' charts/berth/values.yaml >$(CHART)/values.yaml
	@tar -czf $(RELEASE_FOLDER)/berth-$(VERSION:v%=%).tgz -C $(RELEASE_FOLDER) berth && rm -r $(CHART)
	@cd $(RELEASE_FOLDER) && sha256sum * >SHA256SUMS

# The part of a release that needs Go only. krew refuses archives with links.
clients: bin/tools/sbom
	@rm -rf $(RELEASE_FOLDER) && mkdir -p $(RELEASE_FOLDER)
	@for system in $(RELEASE_SYSTEMS); do \
		echo "building berth $(VERSION) for $$system"; \
		program=berth; [[ $$system != windows-* ]] || program=berth.exe; \
		GOOS=$${system%-*} GOARCH=$${system#*-} $(BUILD) -o bin/clients/$$system/$$program ./cmd/berth; \
		bin/tools/sbom bin/clients/$$system/$$program $(VERSION) >$(RELEASE_FOLDER)/berth-$(VERSION)-$$system.spdx.json; \
		tar -czf $(RELEASE_FOLDER)/berth-$(VERSION)-$$system.tar.gz LICENSE -C bin/clients/$$system $$program; done
	@$(MAKE) --no-print-directory $(RELEASE_FOLDER)/placement.yaml

# The manifest for krew, with the checksums of the archives.
$(RELEASE_FOLDER)/placement.yaml:
	@sed -e 1d -e 's/^  version: .*/  version: $(VERSION)/' tools/krew.yaml >$@
	@cd $(@D) && for system in $(RELEASE_SYSTEMS); do \
		archive=berth-$(VERSION)-$$system.tar.gz program=berth; [[ $$system != windows-* ]] || program=berth.exe; \
		printf '  - {selector: {matchLabels: {os: %s, arch: %s}}, bin: %s,\n    uri: %s,\n    sha256: %s}\n' $${system%-*} $${system#*-} $$program \
			https://github.com/berth-dev/berth/releases/download/$(VERSION)/$$archive "$$(sha256sum <$$archive | cut -d' ' -f1)"; done >>$(@F)

# What follows is built on demand and again only when what it is built from changes.

# $(call install,MODULE FOLDER,LDFLAGS,PACKAGE) builds the target from a module of its own and moves it into place whole.
define install
@mkdir -p $(@D)
@$(GO_BUILD) -C $(1) -ldflags="-s -w $(2)" -o $(CURDIR)/$@.new $(3)
@mv $@.new $@
endef

bin/hub/etcd: tools/hub/go.mod tools/hub/go.sum
	@echo "building etcd (about 1 minute the first time)"
	$(call install,tools/hub,,go.etcd.io/etcd/server/v3)

bin/hub/kube-apiserver: tools/hub/go.mod tools/hub/go.sum
	@echo "building kube-apiserver (about 4 minutes the first time)"
	$(call install,tools/hub,$(K8S_LDFLAGS),k8s.io/kubernetes/cmd/kube-apiserver)

bin/hub/kubectl: tools/hub/go.mod tools/hub/go.sum
	@echo "building kubectl (about 1 minute the first time)"
	$(call install,tools/hub,$(K8S_LDFLAGS),k8s.io/kubernetes/cmd/kubectl)

bin/hub/gc: tools/hub/go.mod tools/hub/go.sum $(wildcard tools/hub/cmd/gc/*.go)
	@echo "building the hub's garbage collector (about 1 minute the first time)"
	$(call install,tools/hub,,./cmd/gc)

test/explore/node_modules/.package-lock.json: test/explore/package-lock.json
	@command -v npm >/dev/null || { echo "npm is not on the PATH: install it (Debian: apt-get install nodejs npm)"; exit 1; }
	@cd test/explore && npm ci --ignore-scripts --no-audit --no-fund >/dev/null && touch node_modules/.package-lock.json

bin/tools/golangci-lint: PACKAGE := github.com/golangci/golangci-lint/v2/cmd/golangci-lint
bin/tools/controller-gen: PACKAGE := sigs.k8s.io/controller-tools/cmd/controller-gen
bin/tools/benchstat: PACKAGE := golang.org/x/perf/cmd/benchstat
bin/tools/gotestsum: PACKAGE := gotest.tools/gotestsum
bin/tools/crdversions: PACKAGE := ./crdversions
bin/tools/crdversions: $(wildcard tools/crdversions/*.go)
bin/tools/plugindocs: PACKAGE := ./plugindocs
bin/tools/plugindocs: $(wildcard tools/plugindocs/*.go)
bin/tools/configschema: PACKAGE := ./configschema
bin/tools/configschema: $(wildcard tools/configschema/*.go)
bin/tools/mutants: PACKAGE := ./mutants
bin/tools/mutants: $(wildcard tools/mutants/*.go)
bin/tools/sbom: PACKAGE := ./sbom
bin/tools/sbom: $(wildcard tools/sbom/*.go)
bin/tools/golangci-lint bin/tools/controller-gen bin/tools/gotestsum bin/tools/sbom bin/tools/crdversions bin/tools/plugindocs bin/tools/configschema bin/tools/mutants bin/tools/benchstat: tools/go.mod tools/go.sum
	@echo "building $(@F)$(if $(filter golangci-lint,$(@F)), (several minutes the first time))"
	$(call install,tools,,$(PACKAGE))
