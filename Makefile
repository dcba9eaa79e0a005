# Two commands are enough to begin with: make run, make test. All of them: make help.

JOBS   ?= $(shell nproc)
PROMPT ?= It was on a dreary night of November, that I beheld the accomplishment of my toils.
TOKENS ?= 83
RAM    ?= 21M
FUZZ_SECONDS ?= 60
export PROMPT

.DEFAULT_GOAL := help
.PHONY: help deps dev-deps build run test asan ubsan tsan aarch64 fuzz bench format lint clean

help: ## list the targets
	@sed -nE 's/^([a-z0-9 ]+):[^#]*## (.*)/  make \1\t\2/p' Makefile | expand -t 24

deps:
	@scripts/install-deps

dev-deps:
	@scripts/install-deps --dev

build: deps ## build the program: build/sluice
	@cmake --preset release > /dev/null
	@cmake --build build -j $(JOBS) --target sluice

run: build ## a model of 25 MB writes text within RAM=21M (also: PROMPT=..., TOKENS=...)
	@printf '\n%s' "$$PROMPT"
	@build/sluice run models/k3-nano -p "$$PROMPT" --greedy --max-new $(TOKENS) --ram $(RAM) --stats --quiet

test: deps ## build and run all tests
	@cmake --preset release > /dev/null
	@cmake --build build -j $(JOBS)
	@scripts/run-tests build

asan ubsan tsan: deps ## the tests under a sanitizer (make asan, make ubsan, make tsan)
	@cmake --preset $@ > /dev/null
	@cmake --build build/$@ -j $(JOBS)
	@scripts/run-tests build/$@ 5400

aarch64: ## build for aarch64 and run the tests under an emulator (slow)
	@scripts/install-deps --cross
	@scripts/aarch64-sysroot build/aarch64-sysroot
	@cmake --preset aarch64 > /dev/null
	@cmake --build build/aarch64 -j $(JOBS)
	@scripts/run-tests build/aarch64 5400

fuzz: dev-deps ## each fuzz target for FUZZ_SECONDS=60
	@cmake --preset fuzz > /dev/null
	@cmake --build build/fuzz -j $(JOBS) --target $(patsubst fuzz/%.cc,%,$(wildcard fuzz/*_fuzzer.cc))
	@scripts/run-fuzz build/fuzz $(FUZZ_SECONDS)

bench: deps ## build and run the microbenchmarks
	@cmake --preset release > /dev/null
	@cmake --build build -j $(JOBS)
	@for program in build/bench_*; do "$$program" || exit; done

format: dev-deps ## format the sources in place
	@scripts/lint --format

lint: dev-deps ## check format, clang-tidy and layers
	@cmake --preset lint > /dev/null
	@scripts/lint build/lint

clean: ## remove what was built
	rm -rf build
