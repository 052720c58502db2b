# Every target sets up what it needs (scripts/setup) and is quick when that is done already.
# CARGO_TARGET_DIR is honoured throughout; PYTHON names the interpreter that .venv is made from.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

VENV := .venv/bin
PYTHON_CODE := python tests scripts docs examples benches/python benches/spark
FUZZ_SECONDS ?= 20
SOAK_SECONDS ?= 3600
# Most of the time of the tests of random programs is LLVM's. The programs are the same in every run, so what it made of
# them is kept; a change of the code generator is another key.
KERNELS := $${CARGO_TARGET_DIR:-$$PWD/target}/kernels

heading = @printf '\n== %s\n' '$(1)'

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: setup
setup: ## install LLVM, make .venv, build the Python extension
	@scripts/setup

.PHONY: demo
demo: ## generate a day of ticks, run two queries on it, show plan, throughput and rows, draw them
	@scripts/setup system python
	@VIRTUAL_ENV=$$PWD/.venv $(VENV)/maturin develop --quiet --release
	@rm -f .venv/extension
	@$(VENV)/tilt demo

.PHONY: demo-spark
demo-spark: ## run the README's query on Spark: with a key, without one, and on Parquet files
	@scripts/setup system python extension spark
	@$(VENV)/python examples/spark/demo.py

.PHONY: build
build: setup ## build all crates and the Python extension
	cargo build --workspace

.PHONY: test
test: test-rust test-python test-spark ## run all tests

.PHONY: test-rust
test-rust: ## run the Rust tests
	@scripts/setup system python
	$(call heading,Rust tests)
	@mkdir -p -m 700 $(KERNELS) && find $(KERNELS) -type f -mtime +7 -delete
	TILT_CACHE_DIR=$(KERNELS) cargo test --workspace

# Tests that compare the engine with the oracle, by module.
DIFFERENTIAL := engine keyed joins shapes streams periodic chunks long_windows panes cells reducers windows numerics edges packed foreign live

.PHONY: checked
checked: ## run the differential tests with loops and machine code that check every access
	@scripts/setup system python
	$(call heading,Differential tests)
	TILT_CHECKED=1 PROPTEST_CASES=$${PROPTEST_CASES:-2000} cargo test -p tilt --test it -- $(DIFFERENTIAL)
	cargo test -p tilt-codegen

.PHONY: asan
asan: ## run the differential tests with AddressSanitizer, which needs a nightly toolchain
	@scripts/setup system python
	$(call heading,AddressSanitizer)
	RUSTFLAGS=-Zsanitizer=address ASAN_OPTIONS=detect_leaks=0 CARGO_TARGET_DIR=$${CARGO_TARGET_DIR:-target}/asan PROPTEST_CASES=$${PROPTEST_CASES:-100} \
	  cargo +nightly test -p tilt --test it --target $$(rustc -vV | sed -n 's/^host: //p') -- $(DIFFERENTIAL)

.PHONY: test-python
test-python: setup ## run the Python tests and doctests
	$(call heading,Python tests)
	$(VENV)/python -m mypy.stubtest tilt._native --concise --allowlist scripts/stubtest.txt --ignore-unused-allowlist
	$(VENV)/pytest

.PHONY: test-spark
test-spark: setup ## run the tests on Spark: a session here, a cluster of two executors, a remote session
	@scripts/setup spark
	$(call heading,Spark tests)
	$(VENV)/pytest tests/spark

.PHONY: kill-test
kill-test: setup ## kill runs at 200 random moments and compare what they have written with a run on all rows
	$(call heading,Kills)
	$(VENV)/python tests/kill/kill.py --kills 200

.PHONY: test-spark-long
test-spark-long: setup ## run the tests on Spark that take long: shipping, an older Spark, Kafka, kill -9
	@scripts/setup spark
	$(call heading,Long Spark tests)
	TILT_LONG=1 $(VENV)/pytest tests/spark/test_cluster.py tests/spark/test_kafka.py tests/spark/test_killed.py

.PHONY: free-threaded
free-threaded: ## check that the extension compiles for a Python without the global lock
	@scripts/setup system
	cargo check -p tilt-python --config .cargo/free-threaded.toml --target-dir $${CARGO_TARGET_DIR:-target}/free-threaded

.PHONY: lint
lint: ## check formatting, lints, types, documentation, lock file and licences
	@scripts/setup system python
	$(call heading,Rust: rustfmt · Cargo.lock · clippy · rustdoc)
	cargo fmt --all --check
	cargo metadata --locked --format-version 1 >/dev/null
	cargo clippy --quiet --workspace --all-targets --features tilt/bench -- -D warnings
	RUSTDOCFLAGS=-Dwarnings cargo doc --quiet --workspace --no-deps
	$(call heading,Python: ruff · mypy)
	$(VENV)/ruff check $(PYTHON_CODE)
	$(VENV)/ruff format --check $(PYTHON_CODE)
	$(VENV)/mypy
	$(call heading,Licences)
	$(VENV)/python scripts/check_licences.py

.PHONY: format
format: ## format Rust and Python
	@scripts/setup python
	cargo fmt --all
	$(VENV)/ruff check --fix-only --quiet $(PYTHON_CODE)
	$(VENV)/ruff format $(PYTHON_CODE)

.PHONY: bench
bench: ## run the benchmarks
	@scripts/setup system python
	cargo bench -p tilt --features bench --bench '*'

.PHONY: soak
soak: ## run a session for SOAK_SECONDS (3600) of simulated time at a million events a second, check answers, counts and memory
	@scripts/setup system python
	cargo run --quiet --release -p tilt --example soak -- $(SOAK_SECONDS)

.PHONY: bench-report
bench-report: ## measure the engine in full and store the table in docs/benchmarks.md
	@scripts/setup system python
	cargo bench -p tilt --features bench --bench engine -- --report

.PHONY: bench-python
bench-python: ## compare with pandas, Polars, DuckDB and numba and store the tables in docs/benchmarks_python.md
	@scripts/setup system python
	$(VENV)/pip install --quiet --disable-pip-version-check -r benches/python/requirements.txt
	VIRTUAL_ENV=$$PWD/.venv $(VENV)/maturin develop --quiet --release
	$(VENV)/python -m benches.python --report

.PHONY: bench-spark
bench-spark: ## measure queries on Spark against its own windows and store the table in docs/benchmarks_spark.md
	@scripts/setup system python spark
	@$(VENV)/pip install --quiet --disable-pip-version-check --no-deps dbl-tempo==0.1.30 \
	  && $(VENV)/pip install --quiet --disable-pip-version-check ipython || echo 'dbl-tempo does not install here; its rows are left out'
	VIRTUAL_ENV=$$PWD/.venv $(VENV)/maturin develop --quiet --release
	$(VENV)/python -m benches.spark --rows 20000000 --report

.PHONY: pages
pages: setup ## build the pages of the documentation
	$(call heading,Sphinx)
	$(VENV)/python -m sphinx -q -W --keep-going -b html docs docs/_build/html

.PHONY: docs
docs: pages ## build the documentation: its pages, and the API of the crates
	$(call heading,rustdoc)
	cargo doc --workspace --no-deps
	@echo "open docs/_build/html/index.html and $${CARGO_TARGET_DIR:-target}/doc/tilt/index.html"

.PHONY: fuzz
fuzz: ## run every fuzz target for FUZZ_SECONDS (20) seconds
	@scripts/setup system fuzz
	@scripts/fuzz $(FUZZ_SECONDS)

.PHONY: wheel
wheel: ## build wheel and source distribution into dist/, test the wheel in a clean venv
	@scripts/setup system python wheel
	@scripts/wheel

.PHONY: clean
clean: ## remove everything that was built or installed here
	cargo clean
	rm -rf .venv .tools dist docs/_build fuzz/target python/tilt/*.so python/tilt/NOTICES.txt .mypy_cache .ruff_cache .pytest_cache .hypothesis
