# Sluice. `make` alone prints what there is to do.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

# The architecture the functions are built for: arm64 (cheapest on Lambda) or amd64. It must not leak into
# what is built for this machine, hence unexport.
GOARCH ?= arm64
unexport GOARCH
HOST_GOARCH := $(shell env -u GOARCH go env GOHOSTARCH)
LAMBDA_ARCH := $(patsubst amd64,x86_64,$(GOARCH))

FUNCTIONS := $(patsubst functions/%/main.go,%,$(wildcard functions/*/main.go))

# provided.al2023 starts a file named `bootstrap` and speaks the Runtime API only, so net/rpc is left
# out. -trimpath, no stamp of the commit and -s -w make the same source give the same, small file, wherever
# and whenever it is built: a commit that changes no code deploys no function.
FUNCTION_FLAGS := -tags lambda.norpc -trimpath -buildvcs=false -ldflags "-s -w"

# Pinned tools live under .tools, which git ignores. Nothing is installed outside the repository.
TOOLS := $(CURDIR)/.tools
GOLANGCI_LINT_VERSION := v2.15.0
CDK_VERSION := 2.1148.1
MINISTACK_VERSION := 1.5.33
SAM_VERSION := 1.170.0
CFN_LINT_VERSION := 1.58.0

GOLANGCI_LINT := $(TOOLS)/golangci-lint-$(GOLANGCI_LINT_VERSION)/golangci-lint
CDK_HOME := $(TOOLS)/cdk-$(CDK_VERSION)
CDK := $(CDK_HOME)/node_modules/.bin/cdk
MINISTACK_HOME := $(TOOLS)/ministack-$(MINISTACK_VERSION)
MINISTACK_PYTHON := $(MINISTACK_HOME)/bin/python
SAM_HOME := $(TOOLS)/sam-$(SAM_VERSION)
SAM := $(SAM_HOME)/bin/sam
CFN_LINT_HOME := $(TOOLS)/cfn-lint-$(CFN_LINT_VERSION)
CFN_LINT := $(CFN_LINT_HOME)/bin/cfn-lint

# Scripts want no notices, no version check and no telemetry. CDK_FLAGS is for the user: CDK_FLAGS="-c name=orders".
export CDK_DISABLE_VERSION_CHECK := 1
export CDK_DISABLE_CLI_TELEMETRY := true
export SAM_CLI_TELEMETRY := 0
CDK_FLAGS ?=
RUN_CDK = cd infra && $(CDK) --no-notices -c architecture=$(LAMBDA_ARCH)

.PHONY: help
help: ## List the targets (this text)
	@awk 'BEGIN {FS = ":.*## "} /^[a-z][a-z0-9-]*:.*## / {printf "  make %-17s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

##### Build

.PHONY: build
build: build-functions build-host ## Build everything: functions for Lambda and for this machine, bin/sluice

.PHONY: build-functions
build-functions: ## Build dist/<function>/bootstrap for Lambda (GOARCH=arm64, or amd64)
	@for fn in $(FUNCTIONS); do \
		echo "build dist/$$fn/bootstrap ($(GOARCH))"; \
		CGO_ENABLED=0 GOOS=linux GOARCH=$(GOARCH) go build $(FUNCTION_FLAGS) -o dist/$$fn/bootstrap ./functions/$$fn; \
	done

.PHONY: build-host
build-host: ## Build dist/host/<function>/bootstrap for local clouds on this machine, and bin/sluice
	@for fn in $(FUNCTIONS); do \
		echo "build dist/host/$$fn/bootstrap ($(HOST_GOARCH))"; \
		CGO_ENABLED=0 GOARCH=$(HOST_GOARCH) go build $(FUNCTION_FLAGS) -o dist/host/$$fn/bootstrap ./functions/$$fn; \
	done
	@if [ -d cmd/sluice ]; then echo "build bin/sluice"; mkdir -p bin; go build -trimpath -o bin/sluice ./cmd/sluice; fi

.PHONY: clean
clean: ## Remove what was built (the pinned tools in .tools stay)
	@rm -rf bin dist cdk.out .local

##### See it work

.PHONY: demo
demo: build-host ## Run the webhook demo on the embedded cloud and print its closing table
	@go run ./examples/demo

.PHONY: demo-crash
demo-crash: build-host ## Kill function processes in the middle of a handler and show how their tasks end (80 s)
	@examples/crash.sh

##### Check

.PHONY: test
test: ## Run every unit, property and template test under the race detector, then the long property tests and the whole fault proof
	@.ci/gotest "make test" -race ./...
	@$(MAKE) property-test fault-proof

.PHONY: property-test
property-test: ## Check the limiter's arithmetic against exact oracles and x/time/rate in ten thousand histories each
	@.ci/gotest "make property-test" -count=1 ./shared/limit -run 'Exact|Mints|AgreesWithTimeRate|Plan|Operators|ParkingIsStrict' \
		-rapid.checks=10000 -rapid.nofailfile

# Under the race detector the fault proof tries a sample and no mutants: here it is whole, without.
.PHONY: fault-proof
fault-proof: ## Try every fault at every request of a task's life, and mutants that this must catch
	@go test -count=1 -v -timeout 20m ./shared/worker/faultproof | sed -n '/^figure\|^ok\|^FAIL\|^--- FAIL\|_test.go/p'

.PHONY: bench-limiter
bench-limiter: ## Print the limiter's figures: requests per decision, over-admission, and Go benchmarks of a decision
	@go test ./bench/limiter -count=1 -v -figures | sed -n '/^figure\|^FAIL\|_test.go/p'
	@go test ./shared/limit -run '^$$' -bench . -benchmem | grep '^Benchmark'

.PHONY: bench-ops
bench-ops: build-host ## Print requests per task, per sleep and per idle hour, counted with the real binaries, and Go benchmarks of the claim engine
	@go run ./bench/ops
	@go test ./shared/worker -run '^$$' -bench . -benchmem | grep '^Benchmark'

.PHONY: bench-cold
bench-cold: build-host ## Print how long each function takes to start and answer its first invocation, and its size
	@go run ./bench/cold

.PHONY: costs
costs: ## Print what tasks cost on AWS, beside other ways to sleep durably, from the measured request counts
	@go run ./bench/costs

.PHONY: lint
lint: $(GOLANGCI_LINT) ## Run the linters of .golangci.yml (builds the pinned golangci-lint on first use)
	@$(GOLANGCI_LINT) run --allow-parallel-runners ./... ./.ci/docscheck ./.ci/testsummary

.PHONY: e2e
e2e: build-host $(CDK_HOME)/installed $(MINISTACK_HOME)/installed ## Run the end-to-end suite on each cloud this machine offers: embedded, MiniStack deployed by CDK, ...
	@CDK=$(CDK) MINISTACK_PYTHON=$(MINISTACK_PYTHON) exec localstack/e2e.sh embedded ministack localstack aws

.PHONY: reproducible
reproducible: build-functions ## Build the functions a second time, in another folder and from nothing, and compare
	@GOARCH=$(GOARCH) .ci/reproducible

.PHONY: docs-check
docs-check: ## Check the links, make targets and Go examples in the documentation
	@go run ./.ci/docscheck

##### Measure

.PHONY: bench-parking
bench-parking: build-host ## Play crowds of tasks under limits in virtual time, and a small one with the real binaries (BENCH_FLAGS="-seeds 20 -v")
	@go run ./bench/parking -realtime $(BENCH_FLAGS)

##### Deploy

.PHONY: synth
synth: build-functions $(CDK_HOME)/installed ## Write the CloudFormation template to cdk.out/
	@$(RUN_CDK) synth --quiet $(CDK_FLAGS)

.PHONY: lint-template
lint-template: synth $(CFN_LINT_HOME)/installed ## Check the CloudFormation template with cfn-lint
	@$(CFN_LINT) --regions us-east-1 eu-west-1 --template cdk.out/Sluice.template.json
	@echo "cfn-lint: no findings"

.PHONY: iam
iam: ## Print what each function may do: the IAM statements of its role, as the test of the construct compares them
	@go test ./infra/sluice -count=1 -v -run '^TestEachRoleHasExactlyTheRightsListedHere$$' | \
		sed -n -e '/^!!\|^=== \|^--- PASS\|^PASS$$\|^ok /d' -e 's/^    permissions_test.go:[0-9]*: \(.*\)/\1:/' -e 's/^        //' -e p

.PHONY: sam-validate
sam-validate: synth $(SAM_HOME)/installed ## Check the template with SAM and cfn-lint (installs SAM on first use, 340 MB)
	@$(SAM) validate

.PHONY: bootstrap
bootstrap: build-functions $(CDK_HOME)/installed ## Prepare the account and Region for CDK, once
	@$(RUN_CDK) bootstrap $(CDK_FLAGS)

.PHONY: diff
diff: build-functions $(CDK_HOME)/installed ## Show what a deployment would change
	@$(RUN_CDK) diff $(CDK_FLAGS)

.PHONY: deploy
deploy: build-functions $(CDK_HOME)/installed ## Deploy the stock stack to AWS (CDK_FLAGS="-c name=... -c hosts=...")
	@$(RUN_CDK) deploy $(CDK_FLAGS)

.PHONY: destroy
destroy: build-functions $(CDK_HOME)/installed ## Take the stock stack down; the bucket with its tasks, the table and the logs stay
	@$(RUN_CDK) destroy $(CDK_FLAGS)

##### Tools

.PHONY: tools
tools: $(GOLANGCI_LINT) $(CDK_HOME)/installed $(MINISTACK_HOME)/installed $(CFN_LINT_HOME)/installed ## Install the pinned tools under .tools (the targets above do so when they need one)

# Each tool is installed into a folder that carries its version, and marked once it is complete: an
# interrupted installation is done again.
$(GOLANGCI_LINT):
	@echo "build golangci-lint $(GOLANGCI_LINT_VERSION) (once)"
	@GOFLAGS= GOBIN=$(@D) go install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI_LINT_VERSION)

$(CDK_HOME)/installed:
	@echo "install the CDK command line $(CDK_VERSION)"
	@npm install --prefix $(CDK_HOME) --no-audit --no-fund --loglevel=error --save-exact aws-cdk@$(CDK_VERSION)
	@touch $@

$(MINISTACK_HOME)/installed: localstack/ministack/requirements.txt
	@echo "install MiniStack $(MINISTACK_VERSION)"
	@python3 -m venv --clear $(MINISTACK_HOME)
	@$(MINISTACK_PYTHON) -m pip install --quiet --disable-pip-version-check --requirement $<
	@touch $@

$(CFN_LINT_HOME)/installed:
	@echo "install cfn-lint $(CFN_LINT_VERSION)"
	@python3 -m venv --clear $(CFN_LINT_HOME)
	@$(CFN_LINT_HOME)/bin/python -m pip install --quiet --disable-pip-version-check cfn-lint==$(CFN_LINT_VERSION)
	@touch $@

$(SAM_HOME)/installed:
	@echo "install the SAM command line $(SAM_VERSION)"
	@python3 -m venv --clear $(SAM_HOME)
	@$(SAM_HOME)/bin/python -m pip install --quiet --disable-pip-version-check aws-sam-cli==$(SAM_VERSION)
	@touch $@
