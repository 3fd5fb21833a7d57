# kimbap: everything a developer runs, each target one line of meaning.
#   make demo   the main job, from nothing, on loopback
#   make test   all tests, after the set-up they need
SHELL := /bin/bash
GO ?= go
export CGO_ENABLED ?= 0
STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2
PACKAGES := ./...

.PHONY: build run demo setup test race lint fuzz soak bench ci clean

build: bin/kimbap

bin/kimbap: FORCE
	@mkdir -p bin
	$(GO) build -trimpath -ldflags '-s -w' -o bin/kimbap ./cmd/kimbap
FORCE:

run: build
	./bin/kimbap proxy

demo: build
	@cd examples/demo && $(GO) build -o ../../bin/demo-upstream .
	@./examples/demo/demo.sh bin/kimbap bin/demo-upstream

setup:
	@./.ci/setup

test: setup
	$(GO) test -shuffle=on -timeout 12m $(PACKAGES)

race: setup
	CGO_ENABLED=1 $(GO) test -race -shuffle=on -timeout 20m $(PACKAGES)

lint:
	@test -z "$$(gofmt -l $$(git ls-files '*.go'))" || { gofmt -l $$(git ls-files '*.go'); exit 1; }
	$(GO) vet $(PACKAGES)
	cd examples/demo && $(GO) vet ./...
	CGO_ENABLED=0 $(GO) run $(STATICCHECK) $(PACKAGES)

# Each parser for a while; the corpus of what was found stays in testdata/fuzz.
FUZZTIME ?= 30s
fuzz:
	@for p in $$($(GO) list $(PACKAGES)); do \
	  for f in $$($(GO) test -list '^Fuzz' $$p | grep '^Fuzz'); do \
	    echo "$$p $$f"; $(GO) test -run '^$$' -fuzz "^$$f\$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 1x $$p || exit 1; \
	  done; \
	done

# The tests of faults, many times over: kill -9, failing disks, damaged
# databases, and some hours of ordinary work. For the night.
ROUNDS ?= 100
SOAK ?= 1h
soak: setup
	KIMBAP_ROUNDS=$(ROUNDS) KIMBAP_SOAK=$(SOAK) $(GO) test -count=1 -timeout 48h \
	  -run 'KilledProxiesLoseNothing|DamagedDatabases|ADiskThatFails|ALongDayStaysFlat' ./internal/app

bench: build
	KIMBAP_BIN=$(CURDIR)/bin/kimbap $(GO) test -tags bench -run '^TestBench$$' -count=1 -timeout 20m ./cmd/kimbap

ci: lint test race demo

clean:
	rm -rf bin
