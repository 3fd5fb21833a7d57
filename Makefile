# kimbap: everything a developer runs, each target one line of meaning.
#   make demo   the main job, from nothing, on loopback
#   make test   all tests, after the set-up they need
#   make soak   the load tests at full size, for the night
#   make agents real coding agents behind kimbap run, for the night
#   make browsers real browsers there, for the night
#   make servers  real servers as upstreams, for the night
#   make signins  sign-ins at a certified OpenID provider, for the night
#   make containers  the files of examples/containers with Docker itself, for the night
#   make wine   kimbap.exe and the tests that differ on Windows, for the night
SHELL := /bin/bash
GO ?= go
export CGO_ENABLED ?= 0
STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2
PACKAGES := ./...

.PHONY: build run demo setup test soak race race-built lint others fuzz bench agents browsers servers signins containers wine bettertls specs dist dist-twice ci clean

build: bin/kimbap

bin/kimbap: FORCE
	@mkdir -p bin
	$(GO) build -ldflags '-s -w' -o bin/kimbap ./cmd/kimbap
FORCE:

run: build
	./bin/kimbap proxy

demo: build
	@cd examples/demo && $(GO) build -o ../../bin/demo-upstream .
	@./examples/demo/demo.sh bin/kimbap bin/demo-upstream

setup:
	@./.ci/setup

# The longest packages begin first, and nothing is vetted that make lint vets.
# Tests wait more than they work: on two processors four of a package run at a time.
PARALLEL = $$((2 * $$(nproc 2>/dev/null || echo 2)))
LONGEST = ./internal/app ./cmd/kimbap ./proxy ./runtime/sandbox/worker ./services/rest ./runtime/store/postgres ./runtime/audit
test: setup
	$(GO) test -vet=off -shuffle=on -parallel $(PARALLEL) -timeout 24m $(LONGEST) $(PACKAGES)

# For the night. 10,000 tunnels, 1,000 slow clients, 1 GiB streams: the figures
# themselves, which want 20,000 descriptors (ulimit -n) and most of an hour. Then
# the tests of faults, many times over: kill -9 of proxies, scripts and commands, failing disks,
# damaged databases, and some hours of ordinary work. First of all conversations that SEEDS
# seeds draw; KIMBAP_CHAOS_SEED=N is one of them again.
ROUNDS ?= 100
SOAK ?= 1h
SEEDS ?= 3000
soak: setup
	KIMBAP_CHAOS_SEEDS=$(SEEDS) $(GO) test -count=1 -timeout 6h ./internal/app/chaos
	$(GO) test -tags soak -count=1 -v -timeout 60m ./proxy ./internal/app \
	  -run 'SlowLoris|StalledUpstreams|NoDescriptorLeft|IdleTunnels|ActiveTunnels|Streams|KilledOverAndOver|FewDescriptors'
	CGO_ENABLED=1 $(GO) test -race -count=1 -timeout 60m -run '$(PROCESSES)' -skip 'StaySmall|DoNotGrowMemory' $(PACKAGES)
	KIMBAP_ROUNDS=$(ROUNDS) KIMBAP_SOAK=$(SOAK) $(GO) test -count=1 -timeout 48h \
	  -run 'KilledProxiesLoseNothing|KilledAtIts|KilledAtTheir|DamagedDatabases|ADiskThatFails|ALongDayStaysFlat|ScriptsKilledAtAnyMoment' ./internal/app ./cmd/kimbap

# Without the tests whose time is spent in processes that they start and kill,
# which make soak runs with the race detector too; without those of memory and of
# time, of which the detector takes its own share (LONE: a minute of work of one goroutine, in
# which it can find nothing); without the command, which is flags and terminal
# around the packages that are here; and without packages in which nothing runs beside
# anything. All are in make test. A program under the detector sleeps for a second before it
# ends, unless told otherwise: with as many packages and children that is minutes.
PROCESSES = SeeNoDifference|EverydayWork|InstallersWork|Isolat|TerminalAlone|NoScriptEscapes|HostileScripts|EveryEntrance|WhatArrives|GeneratedRequests|DatabaseThatFails|NoSequenceShows|SSRFCases|Killed|ADiskThatFails|ALongDay|StaySmall|DoNotGrowMemory|IsFast|IsCheap|HostileFilesEndSoon|NoBuiltInSpeaks|NoProxyLeadsToAKimbap|FewDescriptors|BrokenReload|AnotherProcessGives|ASingleStepEnds
LONE = FewAllocations|NothingOfACredentialLeaves|FirstLetterLeavesOutNoName|NoSpellingIsMorePrivileged|LookedAtOnce|HintsThatNobodyTakes|BulkIsCarriedByHTTP1|EveryPackageSays|FilesAndFunctions|Floors|HouseHasOnlyPlanned|NoCodeTrusts|NoHiddenStart|OneOwnerPer|PackageNamesAreOurs|NotAllInMemory|UnpackedToALimit|IsNotReadFurther|HostSocketsAreFound|EveryWrapperKeeps|PassphrasesAreSlow|ALittleAtATime|PutAwayOneByOne|FiltersHaveLimits|InTheWindowTheyNeed|BrotliAsksForItsWindow|DecodeToVeryMuch|PassCostLittle|PartsInGzip|ThatIsTooLongForIt|ReadInItsLength|ARuleIsNotTurnedOffByAnotherWay|ThePoliciesOfTheDocumentation|KeysOfOthersAreNotPushedOut$$|NoCodeTakes|PackageCommentsLead|EverySecurityCaseIsHeld|WhatClientsReadIsSearched|DecodingStopsAtTheLimit|IsLongToLookAt|TestHouse|TouchesTheProcess|NeverThereWhole|VeryManyNamesCosts|GreatNumbersInARequest|DoesNotDependOnHowManyServices

# The engine of SQLite in Go is left as it is: it has locks of its own, and to watch what it
# does was most of the time of these tests. Nor is Argon2, which is slow on purpose, nor the
# arithmetic of crypto/..., a sixth of it. The driver above the engine is watched, and crypto/tls.
UNWATCHED = $(foreach p,modernc.org/sqlite/lib modernc.org/libc modernc.org/libc/... modernc.org/memory golang.org/x/crypto/argon2 golang.org/x/crypto/blake2b crypto/internal/fips140/...,-gcflags='$(p)=-race=false -d=checkptr=0')
RACED = $$($(GO) list $(LONGEST) $(PACKAGES) | grep -vE '/cmd/|/sandbox/(gate|vm)$$|/services/(catalog|export|openapi)$$')
race: setup
	CGO_ENABLED=1 GORACE=atexit_sleep_ms=0 $(GO) test -race $(UNWATCHED) -vet=off -shuffle=on -parallel $(PARALLEL) -timeout 20m -skip '$(PROCESSES)|$(LONE)' $(RACED)

# Compiles what make race tests, so that it begins at once.
race-built:
	CGO_ENABLED=1 $(GO) list -race $(UNWATCHED) -test -deps -export $(RACED) >/dev/null

lint:
	@test -z "$$(gofmt -l $$(git ls-files '*.go'))" || { gofmt -l $$(git ls-files '*.go'); exit 1; }
	$(GO) vet $(PACKAGES)
	$(GO) vet -tags bench ./cmd/kimbap
	$(GO) vet -tags agents,browsers,servers,signins ./cmd/kimbap
	$(GO) vet -tags specs ./services/openapi
	cd examples/demo && $(GO) vet ./...
	cd .ci/vet && $(GO) vet .
	CGO_ENABLED=0 $(GO) run $(STATICCHECK) $(PACKAGES)

# What differs on other platforms: types and the analyzers of go vet, tests included, all of
# it read as sources, a minute in all. The gate and make dist compile too.
OTHERS ?= darwin/arm64 windows/amd64 linux/arm64
others:
	@vet=$$(mktemp) && trap 'rm -f '"$$vet" EXIT && $(GO) build -C .ci/vet -o "$$vet" . && \
	for platform in $(OTHERS); do \
	  echo "$$platform"; \
	  GOOS=$${platform%/*} GOARCH=$${platform#*/} CGO_ENABLED=0 "$$vet" $(PACKAGES) || exit 1; \
	done

# Each parser for a while; the corpus of what was found stays in testdata/fuzz.
FUZZTIME ?= 30s
fuzz:
	@for p in $$($(GO) list $(PACKAGES)); do \
	  for f in $$($(GO) test -list '^Fuzz' $$p | grep '^Fuzz'); do \
	    echo "$$p $$f"; $(GO) test -run '^$$' -fuzz "^$$f\$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 1x $$p || exit 1; \
	  done; \
	done

# All rows of docs/performance.md; it fails when one misses its bar.
#   BENCH=matched,h2       only these rows
#   BENCH_ROUNDS=9         more rounds (5)
#   BENCH_JSON=FILE        the figures for programs too
bench: build
	@$(GO) test -tags bench -run '^TestBench(Verdict|Chooses)' ./cmd/kimbap
	@BENCH='$(BENCH)' BENCH_ROUNDS='$(BENCH_ROUNDS)' BENCH_JSON='$(abspath $(BENCH_JSON))' KIMBAP_BIN=$(CURDIR)/bin/kimbap \
	  $(GO) test -tags bench -run '^TestBench$$' -count=1 -timeout 30m -v ./cmd/kimbap

# For the night: Claude Code, Codex and Gemini CLI as npm has them today, in a folder
# that goes again, each doing a session behind `kimbap run` with a placeholder. What
# answers is a stub on loopback; without the right to make a network of its own (root
# on Linux) an agent may call its vendor for other things.
AGENTS := @anthropic-ai/claude-code @openai/codex @google/gemini-cli
agents:
	@prefix=$$(mktemp -d) && trap 'rm -rf '"$$prefix" EXIT && \
	  npm install --no-audit --no-fund --silent --prefix "$$prefix" $(AGENTS) && \
	  AGENTS_BIN="$$prefix/node_modules/.bin" $(GO) test -tags agents -count=1 -timeout 20m -v -run AgentsDoATurn ./cmd/kimbap

# For the night: Chromium and Firefox behind `kimbap run`, shown pages that ask a service in
# every way that a page can without its consent. As root on Debian it installs them.
browsers:
	@command -v chromium >/dev/null && command -v firefox-esr >/dev/null && command -v certutil >/dev/null || \
	  apt-get install -y --no-install-recommends chromium firefox-esr libnss3-tools
	$(GO) test -tags browsers -count=1 -timeout 10m -v -run PagesInBrowsers ./cmd/kimbap

# For the night: nginx, Apache, Caddy and HAProxy as upstreams: what curl gets from them is the
# same through kimbap as without. As root on Debian it installs them.
servers:
	@command -v nginx >/dev/null && command -v apache2 >/dev/null && command -v caddy >/dev/null && command -v haproxy >/dev/null || \
	  apt-get install -y --no-install-recommends nginx-light apache2 caddy haproxy
	$(GO) test -tags servers -count=1 -timeout 10m -v -run RealServers ./cmd/kimbap

# For the night: sign-ins in a browser and on another device at oidc-provider, as npm has it today,
# on loopback and in a folder that goes again; then many processes renew a grant that a second use
# of its refresh token would end.
signins:
	@prefix=$$(mktemp -d) && trap 'rm -rf '"$$prefix" EXIT && \
	  npm install --no-audit --no-fund --silent --prefix "$$prefix" oidc-provider && \
	  SIGNINS_MODULES="$$prefix" $(GO) test -tags signins -count=1 -timeout 10m -v -run SignInsAtARealProvider ./cmd/kimbap

# For the night: docker build, docker compose, docker run with the words of
# `kimbap env --shell docker` and the devcontainer tool over examples/containers, with an
# engine of its own unless DOCKER_HOST names one. As root on Debian it installs them.
containers:
	@GO=$(GO) ./.ci/containers

# For the night: kimbap.exe under wine as a new user tries it, and the tests of what
# differs on Windows. As root on Debian it installs wine. Half an hour of one core.
wine:
	@GO=$(GO) ./.ci/wine

# The importer over the official descriptions of five APIs, which are too large to
# be kept here: github.json openai.json slack.json figma.yaml resend.yaml, also as
# .gz, in the folder SPECS. It prints how much of each is imported.
specs:
	@test -n '$(SPECS)' || { echo 'where are the descriptions? make specs SPECS=DIR'; exit 1; }
	$(GO) test -tags specs -count=1 -v ./services/openapi -run Official -args -specs '$(abspath $(SPECS))'

# Name constraints and path building, 9,500 cases of Netflix's against the
# verification of upstreams; half a minute of one core.
bettertls:
	cd certs/testdata/bettertls && $(GO) run .

# The files of a release in dist/: programs for all platforms, bills of materials,
# checksums. dist-twice builds them once more from a copy of the sources elsewhere,
# with nothing of the first build at hand, and compares.
VERSION ?= $(shell git describe --tags --always --dirty)
dist:
	@rm -rf dist && GO=$(GO) ./.ci/dist dist $(VERSION) $(PLATFORMS)

dist-twice: dist
	@copy=$$(mktemp -d) && trap 'chmod -R u+w '"$$copy"'; rm -rf '"$$copy" EXIT && \
	  git clone -q . "$$copy/elsewhere" && \
	  GOCACHE="$$copy/cache" GO=$(GO) "$$copy/elsewhere/.ci/dist" "$$copy/dist" $(VERSION) $(PLATFORMS) >/dev/null && \
	  diff dist/SHA256SUMS "$$copy/dist/SHA256SUMS" && echo "both builds are equal"

ci: lint others test race demo

clean:
	rm -rf bin dist
