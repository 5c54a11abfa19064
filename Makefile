# All commands; `make` alone lists them. Each command runs the set-up first (bin/bootstrap, which returns at once if it has run before).
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

BIN := .venv/bin
# bootstrap links Java here if it is not on the PATH.
ifneq ($(wildcard .tools/java/bin/java),)
export JAVA_HOME := $(CURDIR)/.tools/java
endif
export UV_PYTHON_DOWNLOADS := never
# Tests and benchmarks start some hundred Python processes. With this variable set, each would compile all its modules.
export PYTHONDONTWRITEBYTECODE :=

VERSION := $(shell sed -n 's/^version = "\(.*\)"/\1/p' pyproject.toml)

SECONDS ?=
WORKERS ?= 4
ARGS ?=

.PHONY: help
help: ## list the commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-15s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@echo
	@echo "  Ports: FRAUD_BROKER_PORT (9092), FRAUD_BROKER_CONTROLLER_PORT (the port after it), FRAUD_AIRFLOW_PORT (8080 and two more). Exit codes: fraud --help, bin/bootstrap."

.PHONY: demo
demo: ## broker, Airflow, detector, traffic with planted frauds, alerts on the screen; SECONDS=60 stops by itself and checks the alerts
	@bin/bootstrap --ports
	@$(BIN)/fraud demo $(if $(SECONDS),--seconds $(SECONDS)) $(ARGS)

.PHONY: stop
stop: setup ## stop the processes of a demo, and the local broker of `fraud kafka broker start`
	@$(BIN)/fraud demo --stop
	@$(BIN)/fraud kafka broker stop

.PHONY: test
test: browser ## format, lint, types, then all tests except the long ones; ARGS="-k name" passes options to pytest
	$(MAKE) --no-print-directory --jobs=2 --output-sync=target check ui-check
	$(BIN)/pytest -n $(WORKERS) --dist loadscope --no-loadscope-reorder $(ARGS)

.PHONY: test-long
test-long: browser ## the long tests, which make test omits (hours; before a release); ARGS="tests/e2e" selects some
	$(BIN)/pytest -m long $(ARGS)

.PHONY: check
check: setup ## check format, lint, layers and types without changes
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/lint-imports --no-cache
	$(BIN)/mypy

.PHONY: format
format: setup ## format, and apply automatic lint fixes
	$(BIN)/ruff check --fix-only --quiet
	$(BIN)/ruff format

.PHONY: lint
lint: setup ## lint the sources and their layers, and the shell scripts if shellcheck is installed
	$(BIN)/ruff check
	$(BIN)/lint-imports --no-cache
	if command -v shellcheck >/dev/null; then shellcheck bin/bootstrap bin/ui .ci/run; fi

.PHONY: types
types: setup ## mypy --strict on the packages; names and calls in tests and bench
	$(BIN)/mypy

.PHONY: ui
ui: setup ## build the pages of the control plane into the committed files
	bin/ui build

.PHONY: ui-check
ui-check: setup ## check the pages: format, lint, types, tests, and that the committed build matches the sources; skipped if nothing changed
	bin/ui check

.PHONY: schemas
schemas: setup ## write the JSON Schemas of the output topics to docs/schemas
	$(BIN)/python -m fraud_rules.logs.output_schemas

.PHONY: bench
bench: setup ## run the benchmark with exactly-once output and checkpoints; writes docs/benchmarks.md
	$(BIN)/python -m bench $(ARGS)

.PHONY: chaos
chaos: setup ## 200 kills of driver, workers and broker under load (prints its seed; FRAUD_SEED repeats a run)
	FRAUD_KILLS=$${FRAUD_KILLS:-200} FRAUD_TIMES=$${FRAUD_TIMES:-5} $(BIN)/pytest -m recovery --timeout 0 $(ARGS)

.PHONY: hosts-check
hosts-check: setup ## run a detector on hosts that share no file; kill hosts, pull cables, fill a disk (root; namespaces of this machine)
	$(BIN)/pytest -s -m "recovery and long" --timeout 0 tests/recovery/test_hosts.py $(ARGS)

.PHONY: conformance
conformance: setup ## run every conformance case and bad input through a running detector (minutes)
	$(BIN)/pytest -m "" tests/integration/streams/test_conformance_stream.py tests/integration/test_bad_input.py $(ARGS)

.PHONY: oracle-long
oracle-long: setup ## compare kernel, nightly job and detector with the oracle on 2,000 generated streams (FRAUD_STREAMS, FRAUD_SEED)
	FRAUD_STREAMS=$${FRAUD_STREAMS:-2000} $(BIN)/pytest --timeout 0 tests/unit/engine/test_kernel_against_oracle.py \
		tests/unit/batch/test_parity_kernel.py tests/unit/batch/test_parity_archive.py tests/integration/streams/test_generated_streams.py $(ARGS)

.PHONY: fuzz
fuzz: setup ## parse a million random records and 100,000 random rules (FUZZ_RECORDS, FUZZ_RULES, FUZZ_SEED)
	FUZZ_RECORDS=$${FUZZ_RECORDS:-1000000} FUZZ_RULES=$${FUZZ_RULES:-100000} $(BIN)/pytest --timeout 0 tests/unit/codec/test_codec_fuzz.py tests/unit/codec/test_rule_fuzz.py $(ARGS)

.PHONY: compose-check
compose-check: setup ## start docker-compose.yml in containers, kill each service, remove everything (root, podman; about an hour)
	$(BIN)/python -m compose_check $(ARGS)

.PHONY: setup
setup: ## run only the set-up: Java, uv, .venv/ and lib/
	@bin/bootstrap

.PHONY: browser
browser: # the browser for the tests of the pages
	@bin/bootstrap --browser

.PHONY: jars
jars: ## fetch the jars of config/ivy.xml again and verify them
	@rm -rf lib
	@bin/bootstrap --force

.PHONY: lock
lock: setup ## update uv.lock after a change of pyproject.toml, and config/jars.sha256 after a change of config/ivy.xml
	.tools/uv/bin/uv lock
	bin/bootstrap --lock-jars

.PHONY: wheel
wheel: ## build the three wheels, for Spark, Airflow and the control plane, into dist/
	@bin/bootstrap --uv
	.tools/uv/bin/uv build --all-packages --wheel --quiet --out-dir dist
	@ls dist/*.whl

.PHONY: site
site: setup ## build the site of the documents, with search, into var/site
	@mkdir -p var/site-pages
	@for page in *.md LICENSE docs examples; do ln -sfn "$(CURDIR)/$$page" "var/site-pages/$$page"; done
	NO_MKDOCS_2_WARNING=1 .tools/uv/bin/uv run --isolated --only-group site --frozen mkdocs build --strict --quiet
	@echo var/site/index.html

.PHONY: sbom
sbom: setup ## write the bills of materials to dist/ (CycloneDX, from the lock files): the packages of the image, and those of the pages
	mkdir -p dist
	.tools/uv/bin/uv export --frozen --no-dev --group airflow --group server --format cyclonedx1.5 --quiet \
		--output-file dist/fraud-rules-$(VERSION).cdx.json
	cd plugins/fraud_control/ui && PATH=$(CURDIR)/$(BIN):$$PATH npm sbom --package-lock-only --omit dev --sbom-format cyclonedx \
		>$(CURDIR)/dist/fraud-rules-pages-$(VERSION).cdx.json

.PHONY: changelog-check
changelog-check: ## check that CHANGELOG.md has entries for the version of pyproject.toml
	@awk '/^## /{ here = index($$2, "[$(VERSION)]") } here && /^- /{ found = 1 } END{ exit !found }' CHANGELOG.md || \
		{ echo 'CHANGELOG.md has no entries under [$(VERSION)]: rename its section [Unreleased]' >&2; exit 1; }

.PHONY: release-files
release-files: wheel sbom ## the quick part of a release: wheels, bills of materials and their checksums in dist/
	cd dist && sha256sum fraud_rules*-$(VERSION)-*.whl fraud-rules*-$(VERSION).cdx.json >SHA256SUMS

.PHONY: release
release: changelog-check ## all tests, short and long (hours), the site, then the files of the release
	$(MAKE) --no-print-directory test
	$(MAKE) --no-print-directory test-long
	$(MAKE) --no-print-directory site
	$(MAKE) --no-print-directory release-files

.PHONY: clean
clean: ## remove caches and temporary files; the environment, the jars and var/ stay
	rm -rf dist .hypothesis .mypy_cache .pytest_cache .ruff_cache spark-warehouse metastore_db derby.log
	find spark_jobs tests bench dags plugins -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true

.PHONY: distclean
distclean: clean ## remove everything that git ignores: the next command sets up from scratch
	if [ -x $(BIN)/fraud ]; then $(BIN)/fraud demo --stop; $(BIN)/fraud kafka broker stop; fi
	rm -rf .venv .tools .cache lib var
