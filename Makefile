# `make` lists the targets.
.DEFAULT_GOAL := help
.PHONY: package try-package monitoring docs chaos crash evictions differential moves scale help test test-servers test-oldest test-long clients lint check servers demo demo-cluster demo-all lab-quick bench memory-model analyze-stream model fuzz command-table

FUZZ_SECONDS ?= 60

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

# The debug builds are those of the whole workspace with its tests: of a part of it, features and with them half of all crates
# are others, and are built once more. So some suites are run by scripts/suites.

# Many tests wait for servers more than they compute.
export RUST_TEST_THREADS ?= $(shell expr 2 \* $$(getconf _NPROCESSORS_ONLN))

# What moves keys gives way to all that wants a processor. Beside tests that keep all of them busy it would hardly get on, so they
# give way almost as much.
TEST := nice -n 15 cargo test
SUITES := nice -n 15 scripts/suites

test: ## the tests, against every server at hand; what takes minutes is in test-long
	@scripts/ensure-server
	$(TEST) --workspace

# The suites that have servers, from the test kit, and so may find something else with another one; a test keeps this list.
SERVER_SUITES := bed blocking_client cluster_layout commands memory program proxy servers slots survey whole

# For scripts that run some of them.
.PHONY: server-suites
server-suites:
	@echo $(SERVER_SUITES)

# Of the crates themselves, too, unless one suite is run after the others. And of all of them what these say to the test programs.
SERVER_UNITS := keyfold*
TEST_ARGS :=

test-servers: ## of the tests those that have servers, against every one at hand
	@scripts/ensure-server
	$(SUITES) '$(SERVER_UNITS) $(SERVER_SUITES)' $(TEST_ARGS)

# Those left out weigh memory, or ask plain keys for what this server doesn't know.
test-oldest: ## of those the ones that Redis 6.2 can take part in, the oldest that keyfold works with
	@scripts/ensure-server
	scripts/oldest-server
	KEYFOLD_SERVERS=$(CURDIR)/target/oldest $(SUITES) '$(filter-out memory program whole,$(SERVER_SUITES))' $(TEST_ARGS)

test-long: ## the tests that take minutes: the lab's studies on every server, large families, a large model, clusters, Sentinels
	@scripts/ensure-server
	$(SUITES) 'keyfold* program bed proxy whole' --ignored
	$(SUITES) move_model --ignored before_two

clients: ## sessions of client libraries through keyfold: redis-py, ioredis, go-redis, redis-rs, lettuce; locks, limits, clusters, caches, sets and hashes
	@scripts/ensure-server
	scripts/with-keyfold scripts/clients
	scripts/clients cluster
	scripts/caches
	scripts/collections

package: ## a Debian package, an archive for any Linux and a container image, in target/package
	scripts/package

try-package: ## install, start, upgrade and remove them in a small system that boots for it (as root)
	@[ -d target/package ] || $(MAKE) package
	scripts/try-package

monitoring: ## alerts and dashboard against a real Prometheus
	@scripts/ensure-server
	cargo test --quiet --workspace --no-run
	scripts/monitoring

docs: ## docs/ as a site, in target/book
	scripts/book

lint: ## format, lints and docs, warnings as errors
	cargo fmt --all --check
	cargo clippy --workspace --all-targets -- -D warnings
	RUSTDOCFLAGS=-Dwarnings cargo doc --workspace --no-deps

check: ## all that a push must pass
	.ci/run

servers: ## bring more versions of Redis and Valkey for the tests
	scripts/servers

demo: ## fold data before your eyes (DATA=file for your own)
	@scripts/ensure-server
	cargo run --release -p keyfold -- demo $(if $(DATA),--data $(DATA))

demo-cluster: ## the same before a cluster whose slots move and one of whose nodes is killed (DATA=file for your own)
	@scripts/ensure-server
	cargo run --release -p keyfold -- demo --cluster $(if $(DATA),--data $(DATA))

demo-all: ## fold every *.jsonl.gz of a directory (DIR=directory)
	@scripts/ensure-server
	cargo run --release -p keyfold -- demo --measure $(foreach file,$(sort $(wildcard $(DIR)/*.jsonl.gz)),--data $(file))

lab-quick: ## run the published studies, small, with plots in target/lab (ARGS='--seed 2')
	@scripts/ensure-server
	cargo run -p keyfold -- lab all --quick --out target/lab $(ARGS)

bench: ## measure memory, speed, commands, clusters, idle connections, codecs, sets and hashes, and what metrics cost on the servers at hand (ARGS='memory --server valkey')
	@scripts/ensure-server
	cargo run --release -p keyfold-testkit --bin bench -- $(ARGS)

moves: ## measure how fast keys move, and what a load feels of it (ARGS='--server valkey --rate 5000')
	@scripts/ensure-server
	cargo build --release -p keyfold -p keyfold-testkit --bin keyfold --bin moves
	target/release/moves $(ARGS)

scale: ## every tool on 20,000,000 keys under load, with its time and memory (ARGS='--keys 2000000 --server valkey')
	@scripts/ensure-server
	cargo build --release -p keyfold -p keyfold-testkit --bin keyfold --bin scale
	target/release/scale $(ARGS)

crash: ## kill movers, proxies and the server while keys move, 200 rounds (ARGS='--rounds 20 --seed 1')
	@scripts/ensure-server
	cargo build --release -p keyfold -p keyfold-testkit --bin keyfold --bin crash
	target/release/crash --rounds 200 $(ARGS)

evictions: ## evict 1,000,000 keys of a cache under load, through keyfolds that are killed (ARGS='--evictions 50000 --seed 1')
	@scripts/ensure-server
	cargo build --release -p keyfold -p keyfold-testkit --bin keyfold --bin evictions
	target/release/evictions --evictions 1000000 $(ARGS)

differential: ## compare keyfold with a server by random commands (ARGS='--server valkey --behind cluster --seed 2', or '--tracking' for clients with caches)
	@scripts/ensure-server
	cargo build --release -p keyfold -p keyfold-testkit --bin keyfold --bin differential
	target/release/differential --commands 1000000 $(ARGS)

chaos: ## kill, freeze, cut off and reshard a cluster's nodes before three keyfolds while namespaces move, 200 rounds (ARGS='--rounds 20 --seed 1')
	@scripts/ensure-server
	cargo build --release -p keyfold -p keyfold-testkit --bin keyfold --bin chaos
	target/release/chaos --rounds 200 $(ARGS)

memory-model: ## compare the memory model with the servers at hand, and write docs/memory-model.md
	@scripts/ensure-server
	cargo run --release -p keyfold-testkit --bin memory-model -- $(ARGS)

analyze-stream: ## survey 100 million generated keys and a dump of 50 million, and hold the resident size below 200 MB
	cargo test --release -p keyfold-survey --test survey stream -- --ignored --nocapture
	cargo test --release -p keyfold --test program dump_size -- --ignored --nocapture

model: ## check the protocols of moves within wider bounds than the tests do
	cargo test --release -p keyfold-core --test move_model -- --ignored --nocapture
	cargo test --release -p keyfold-core --test shards_model -- --ignored --nocapture
	$(TEST) --workspace --test whole every_order -- --ignored --nocapture

fuzz: ## run every fuzz target for a minute (TARGET=name for one of them, FUZZ_SECONDS=60)
	@cargo fuzz --version >/dev/null 2>&1 || cargo install cargo-fuzz --locked
	cargo fuzz build --sanitizer none
	@for target in $(or $(TARGET),$$(cargo fuzz list)); do \
	  echo "== $$target" && cargo fuzz run --sanitizer none $$target -- -max_total_time=$(FUZZ_SECONDS) || exit 1; \
	done

command-table: servers ## make the core's command table again from the servers at hand
	scripts/command-table
