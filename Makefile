# Every target makes its own virtual environment; only Python 3, make and a compiler are needed.
#   make serve   a page that shows why an item moved            make test    all tests
#   make demo    the same as one file, without a service
#   make demo-photos   pictures encoded, searched and re-ranked: how fast, how much better
#   make bench   accuracy, speed, memory (DATA=folder)          make check   style, types, import directions
#   make bench-paper   the paper's tables and figures on the features in DATA, as a page in out/paper
#   make docs    the documentation, as a site in site/          make fuzz    file readers against random bytes (SECONDS=60)
#   make test-stores   over real vector databases, and inside frameworks: installs them all first
#   make test-web      the page in a real browser, the service under random requests: installs Chromium where it is missing
#   make test-encoders  pictures and texts by real networks: installs torch and their weights first
#   make test-learned   learned methods, fitted: installs torch first
#   make test-faults   kills, many writers, broken folders, full disks, senseless arguments
#   make wheel   dist/*.whl with machine code for this Python and system          make test-wheel   the same, and try it
#   make soak    a service that is changed, searched and killed for 20 minutes (SOAK_SECONDS=1200), against a model of its state
PYTHON ?= python3
VENV ?= .venv
DATA ?= ../shared/data
RESULTS ?= out/bench.jsonl
PIP = $(VENV)/bin/python -m pip install -q --disable-pip-version-check

AXE = out/web/node_modules/axe-core/axe.min.js
TWO = -n 2 --dist loadfile  # two processes, each with files of its own
FUZZ = .venv-fuzz
SECONDS ?= 60
SOAK_SECONDS ?= 1200

.PHONY: help serve demo demo-photos test test-fast test-stores test-encoders test-learned test-web fuzz-web chromium test-faults soak wheel test-wheel check bench bench-learned bench-paper bench-stores bench-service docs fuzz clean

help:
	@sed -n 's/^# \{0,1\}//p' Makefile | head -n 15

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/core.stamp: pyproject.toml | $(VENV)/bin/python
	$(PIP) -e .
	@touch $@

$(VENV)/dev.stamp: pyproject.toml bench/pyproject.toml | $(VENV)/bin/python
	$(PIP) -e '.[dev]' -e ./bench
	@touch $@ $(VENV)/core.stamp

$(VENV)/engines.stamp: pyproject.toml bench/pyproject.toml | $(VENV)/bin/python
	$(PIP) -e '.[engines]' -e ./bench
	@touch $@ $(VENV)/dev.stamp $(VENV)/core.stamp

$(VENV)/web.stamp: pyproject.toml bench/pyproject.toml | $(VENV)/bin/python
	$(PIP) -e '.[web]' -e ./bench
	@touch $@ $(VENV)/core.stamp

$(VENV)/browser.stamp: pyproject.toml bench/pyproject.toml | $(VENV)/bin/python
	$(PIP) -e '.[browser]' -e ./bench
	@touch $@ $(VENV)/web.stamp $(VENV)/dev.stamp $(VENV)/core.stamp

$(VENV)/images.stamp: pyproject.toml bench/pyproject.toml | $(VENV)/bin/python
	$(PIP) -e '.[images,web]' -e ./bench
	@touch $@ $(VENV)/web.stamp $(VENV)/core.stamp

$(VENV)/learned.stamp: pyproject.toml bench/pyproject.toml | $(VENV)/bin/python
	$(PIP) -e '.[dev,torch]' -e ./bench
	@touch $@ $(VENV)/dev.stamp $(VENV)/core.stamp

$(VENV)/encoders.stamp: pyproject.toml bench/pyproject.toml | $(VENV)/bin/python
	$(PIP) -e '.[encoders]' -e ./bench
	@touch $@ $(VENV)/images.stamp $(VENV)/learned.stamp $(VENV)/web.stamp $(VENV)/dev.stamp $(VENV)/core.stamp

$(VENV)/docs.stamp: pyproject.toml bench/pyproject.toml | $(VENV)/bin/python
	$(PIP) -e '.[docs]' -e ./bench
	@touch $@ $(VENV)/core.stamp

out:
	@mkdir -p out

serve: $(VENV)/web.stamp
	$(VENV)/bin/kinrank serve --open

demo: $(VENV)/core.stamp | out
	$(VENV)/bin/kinrank demo -o out/demo.html

# the thumbnails of ROxford5k where they are, toys drawn on the spot where they are not
demo-photos: $(VENV)/images.stamp | out
	$(VENV)/bin/kinrank bench photos $(if $(wildcard $(DATA)/roxford5k_thumbnails.zip),--data $(DATA)) -o $(RESULTS)

test: $(VENV)/dev.stamp
	$(VENV)/bin/python -m pytest $(TWO)

test-fast: $(VENV)/dev.stamp
	$(VENV)/bin/python -m pytest -m "not slow and not faults"

test-stores: $(VENV)/engines.stamp
	$(VENV)/bin/python -m pytest tests/stores tests/integrations tests/test_examples.py tests/bench/test_vector_databases.py
	$(VENV)/bin/python -m pytest tests/test_docs.py -k 'python_blocks and (stores or integrations)'

# timm and OpenCLIP need torchvision, of which there is no CPU build: they stand apart, where tests mend what it lacks
out/torchvision/stamp: $(VENV)/encoders.stamp | out
	$(PIP) --no-deps --upgrade --target out/torchvision torchvision==0.28.0 timm==1.0.30 open_clip_torch==3.3.0 ftfy wcwidth
	@touch $@

test-encoders: $(VENV)/encoders.stamp out/torchvision/stamp
	$(VENV)/bin/python -m pytest $(TWO) tests/encoders 'tests/test_examples.py::test_example_runs[search_pictures.py]'
	PYTHONPATH=out/torchvision $(VENV)/bin/python -m pytest tests/encoders/test_timm.py tests/encoders/test_open_clip.py

test-learned: $(VENV)/learned.stamp
	$(VENV)/bin/python -m pytest $(TWO) tests/learned tests/methods/test_learned_method.py tests/cli/test_fit.py tests/bench/test_fit_gain.py 'tests/test_examples.py::test_example_runs[learned_reranker.py]'
	$(VENV)/bin/python -m pytest tests/test_docs.py -k 'python_blocks and (csa or ssr or lattqe or learned)'

# axe-core finds what people who cannot see or use a mouse would stumble over
$(AXE): | out
	npm install --silent --prefix out/web --no-save --no-audit --no-fund axe-core@4

chromium:
	@command -v chromedriver > /dev/null || (apt-get update -qq && apt-get install -y -qq chromium chromium-driver > /dev/null)

test-web: $(VENV)/browser.stamp $(AXE) chromium
	KINRANK_NEED_BROWSER=1 KINRANK_AXE=$(AXE) $(VENV)/bin/python -m pytest tests/web/test_page.py tests/web/test_wait_page_browser.py tests/web/test_upload_page.py tests/web/test_photos_page.py tests/web/test_fuzz.py

fuzz-web: $(VENV)/browser.stamp
	SERVICE_SECONDS=300 $(VENV)/bin/python -m pytest tests/web/test_fuzz.py

test-faults: $(VENV)/dev.stamp
	$(VENV)/bin/python -m pytest $(TWO) -m faults tests/faults

soak: $(VENV)/dev.stamp
	PYTHONPATH=tests $(VENV)/bin/python -m faults.service_soak --seconds $(SOAK_SECONDS)

# `pip wheel .` alone makes a wheel without machine code, for every Python and system
wheel: $(VENV)/core.stamp
	rm -rf dist
	$(VENV)/bin/kinrank warmup --baseline
	$(VENV)/bin/python -m pip wheel -q --disable-pip-version-check --no-deps -w dist . ; result=$$?; \
	    rm -rf src/kinrank/machine_code; exit $$result

test-wheel: $(VENV)/dev.stamp wheel
	KINRANK_WHEEL=$$(echo dist/*.whl) $(VENV)/bin/python -m pytest -s tests/test_wheel.py

check: $(VENV)/dev.stamp
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check --exclude '*.md' .
	$(VENV)/bin/mypy
	$(VENV)/bin/python -m pytest tests/test_imports.py

bench: $(VENV)/dev.stamp | out
	$(VENV)/bin/kinrank bench accuracy --data $(DATA) -o $(RESULTS)
	$(VENV)/bin/kinrank bench speed --data $(DATA) -o $(RESULTS)
	$(VENV)/bin/kinrank bench memory -o $(RESULTS)
	$(VENV)/bin/kinrank bench diagnosis --data $(DATA) -o $(RESULTS)

bench-learned: $(VENV)/learned.stamp | out
	$(VENV)/bin/kinrank bench learned --data $(DATA) -o $(RESULTS)

bench-paper: $(VENV)/dev.stamp | out
	$(VENV)/bin/kinrank bench paper --data $(DATA) -o out/paper

bench-service: $(VENV)/dev.stamp | out
	$(VENV)/bin/kinrank bench service --data $(DATA) -o $(RESULTS)

bench-stores: $(VENV)/engines.stamp | out
	$(VENV)/bin/kinrank bench stores --data $(DATA) -o $(RESULTS)

docs: $(VENV)/docs.stamp
	$(VENV)/bin/python docs/build.py
	$(VENV)/bin/python -m mkdocs build --strict --quiet
	@echo "site/index.html opens in a browser; for its search: $(VENV)/bin/python -m http.server -d site"

$(FUZZ)/stamp: pyproject.toml
	$(PYTHON) -m venv $(FUZZ)
	$(FUZZ)/bin/python -m pip install -q --disable-pip-version-check -e '.[fuzz]'
	@touch $@

fuzz: $(FUZZ)/stamp | out
	cd out && for reader in $$(../$(FUZZ)/bin/python ../tests/fuzz/readers.py --list); do \
	    echo "$$reader for $(SECONDS) seconds"; \
	    ../$(FUZZ)/bin/python ../tests/fuzz/readers.py $$reader -max_total_time=$(SECONDS) -verbosity=0 || exit 1; \
	done

clean:
	rm -rf $(VENV) $(FUZZ) out site build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
