# Sluice. `make` alone prints what there is to do.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

# The architecture the functions are built for: arm64 (cheapest on Lambda) or amd64. Deploy an amd64
# build with `-c architecture=x86_64`. It must not leak into builds for this machine, hence unexport.
GOARCH ?= arm64
HOST_GOARCH := $(shell go env GOHOSTARCH)
unexport GOARCH

FUNCTIONS := $(patsubst functions/%/main.go,%,$(wildcard functions/*/main.go))

# provided.al2023 starts a file named `bootstrap` and speaks the Runtime API only, so net/rpc is left
# out. -trimpath and -s -w make the same source give the same, small file.
FUNCTION_FLAGS := -tags lambda.norpc -trimpath -ldflags "-s -w"

# Pinned tools live under .tools, which git ignores. Nothing is installed outside the repository.
TOOLS := $(CURDIR)/.tools
GOLANGCI_LINT_VERSION := v2.15.0
GOLANGCI_LINT := $(TOOLS)/bin/golangci-lint-$(GOLANGCI_LINT_VERSION)

.PHONY: help
help: ## List the targets (this text)
	@awk 'BEGIN {FS = ":.*## "} /^[a-z][a-z0-9-]*:.*## / {printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: build
build: build-functions build-host ## Build the functions (dist/, GOARCH=arm64 by default) and the command line (bin/sluice)

.PHONY: build-functions
build-functions: ## Build dist/<function>/bootstrap for Lambda (GOARCH=arm64|amd64)
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
	@if [ -d cmd/sluice ]; then echo "build bin/sluice"; go build -trimpath -o bin/sluice ./cmd/sluice; fi

.PHONY: demo
demo: build-host ## Run the webhook demo on the embedded cloud and print its closing table
	@go run ./examples/demo

.PHONY: test
test: ## Run every unit, property and template test under the race detector, and print a summary
	@go test -race -json ./... | go run ./.ci/testsummary "make test"

.PHONY: vet
vet: ## Run go vet
	@go vet ./...

.PHONY: lint
lint: $(GOLANGCI_LINT) ## Run the linters of .golangci.yml (builds the pinned golangci-lint on first use)
	@$(GOLANGCI_LINT) run ./... ./.ci/...

$(GOLANGCI_LINT):
	@echo "build golangci-lint $(GOLANGCI_LINT_VERSION) (once, a few minutes)"
	@mkdir -p $(TOOLS)/bin
	@GOBIN=$(TOOLS)/bin GOFLAGS= go install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI_LINT_VERSION)
	@mv $(TOOLS)/bin/golangci-lint $@

.PHONY: clean
clean: ## Remove what was built (the pinned tools in .tools stay)
	@rm -rf bin dist cdk.out .local
