# Every target creates its own virtual environment; you need only Python 3 and make.
#   make serve          web page that shows why an item moved
#   make demo           the same page as one file, without a service
#   make demo-photos    encode, search and re-rank pictures; print speed and gain
#   make test           run all tests
#   make check          check style, types and import directions
#   make bench          measure accuracy, speed and memory (DATA=folder)
#   make bench-all      measure again what README and docs print with older code; resumes (LIST=1, ONLY=speed)
#   make numbers        mark numbers in README and docs that older code measured
#   make bench-paper    write the paper's tables and figures for the features in DATA to out/paper
#   make docs           build the documentation in site/
#   make fuzz           feed random bytes to the file readers (SECONDS=60 each)
#   make test-stores    test vector databases and frameworks; installs them first
#   make test-web       test the page in a browser and the service with random requests; installs Chromium if missing
#   make test-encoders  test encoders with real networks; installs torch and their weights first
#   make test-learned   fit and test learned methods; installs torch first
#   make test-faults    test kills, concurrent writers, damaged folders, full disks and invalid arguments
#   make test-nightly   run tests and fault tests with many more examples and kills
#   make wheel          build dist/*.whl with machine code for this Python and system; make test-wheel also tries it
#   make soak           change, search and kill a service for 20 minutes (SOAK_SECONDS=1200); compare it with a model
PYTHON ?= python3
VENV ?= .venv
DATA ?= ../shared/data
RESULTS ?= out/bench.jsonl
# without bytecode of everything: Python writes that of the modules in use at their first import, in a fifth of the time
PIP = $(VENV)/bin/python -m pip install -q --disable-pip-version-check --no-compile

AXE = out/web/node_modules/axe-core/axe.min.js
TWO = -n 2 --dist loadfile --no-loadscope-reorder  # two processes; all tests of a file in one; long files first
FUZZ = .venv-fuzz
SECONDS ?= 60
SOAK_SECONDS ?= 1200

.PHONY: help serve demo demo-photos install install-all test test-fast test-nightly test-stores test-encoders test-learned test-web fuzz-web chromium test-faults soak wheel test-wheel check bench bench-all bench-learned bench-paper bench-stores bench-service docs numbers fuzz clean

help:
	@sed -n 's/^# \{0,1\}//p' Makefile | head -n 20

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

# everything that tests use, at once: pip has to find versions only once
$(VENV)/all.stamp: pyproject.toml bench/pyproject.toml | $(VENV)/bin/python
	$(PIP) -e '.[engines,encoders,browser]' -e ./bench
	@touch $@ $(addprefix $(VENV)/,$(addsuffix .stamp,engines encoders browser images learned web dev core))

$(VENV)/docs.stamp: pyproject.toml bench/pyproject.toml | $(VENV)/bin/python
	$(PIP) -e '.[docs]' -e ./bench
	@touch $@ $(VENV)/core.stamp

out:
	@mkdir -p out

serve: $(VENV)/web.stamp
	$(VENV)/bin/kinrank serve --open

demo: $(VENV)/core.stamp | out
	$(VENV)/bin/kinrank demo -o out/demo.html

# uses the thumbnails of ROxford5k if they exist, and generated toys otherwise
demo-photos: $(VENV)/images.stamp | out
	$(VENV)/bin/kinrank bench photos $(if $(wildcard $(DATA)/roxford5k_thumbnails.zip),--data $(DATA)) -o $(RESULTS)

install: $(VENV)/dev.stamp
install-all: $(VENV)/all.stamp

# kernels are compiled first, on all cores: otherwise both processes of tests compile the same ones, and requests wait
test: $(VENV)/dev.stamp
	$(VENV)/bin/kinrank warmup -q
	$(VENV)/bin/python -m pytest $(TWO)

# ten times as many examples of property tests, other ones every time, and far more kills
test-nightly: $(VENV)/dev.stamp
	KINRANK_EXAMPLES=10 KINRANK_KILLS=200 $(VENV)/bin/python -m pytest $(TWO)
	KINRANK_EXAMPLES=10 KINRANK_MODEL_EXAMPLES=300 KINRANK_KILLS=200 KINRANK_WRITERS_SECONDS=60 KINRANK_REQUESTS=20000 KINRANK_INTERRUPTIONS=20 $(VENV)/bin/python -m pytest $(TWO) -m faults tests/faults

test-fast: $(VENV)/dev.stamp
	$(VENV)/bin/python -m pytest -m "not slow and not faults"

test-stores: $(VENV)/engines.stamp
	$(VENV)/bin/python -m pytest $(TWO) tests/stores tests/integrations tests/test_examples.py tests/bench/test_vector_databases.py
	$(VENV)/bin/python -m pytest tests/test_docs.py -k 'python_blocks and (stores or integrations)'

# timm and OpenCLIP need torchvision, which has no CPU build: install them separately; the tests stub what is missing
out/torchvision/stamp: $(VENV)/encoders.stamp | out
	$(PIP) --no-deps --upgrade --target out/torchvision torchvision==0.28.0 timm==1.0.30 open_clip_torch==3.3.0 ftfy wcwidth
	@touch $@

test-encoders: $(VENV)/encoders.stamp out/torchvision/stamp
	$(VENV)/bin/python -m pytest $(TWO) tests/encoders 'tests/test_examples.py::test_example_runs[search_pictures.py]'
	PYTHONPATH=out/torchvision $(VENV)/bin/python -m pytest tests/encoders/test_timm.py tests/encoders/test_open_clip.py

test-learned: $(VENV)/learned.stamp
	$(VENV)/bin/python -m pytest $(TWO) tests/learned tests/methods/test_learned_method.py tests/cli/test_fit.py tests/bench/test_fit_gain.py 'tests/test_examples.py::test_example_runs[learned_reranker.py]'
	$(VENV)/bin/python -m pytest tests/test_docs.py -k 'python_blocks and (csa or ssr or lattqe or learned)'

# axe-core checks accessibility
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

# measures again what README and docs print and what is not of this code; LIST=1 only prints what remains,
# ONLY="speed candidates" measures only these
bench-all: $(if $(LIST),$(VENV)/dev.stamp,$(VENV)/engines.stamp $(VENV)/encoders.stamp) | out
	$(VENV)/bin/python benchmarks/renew.py --data $(DATA) $(if $(LIST),--list) $(ONLY)

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

# marks the numbers of code that has changed, and measures nothing
numbers: $(VENV)/dev.stamp
	$(VENV)/bin/python docs/build.py --numbers

$(FUZZ)/stamp: pyproject.toml bench/pyproject.toml
	$(PYTHON) -m venv $(FUZZ)
	$(FUZZ)/bin/python -m pip install -q --disable-pip-version-check --no-compile -e '.[fuzz]' -e ./bench
	@touch $@

fuzz: $(FUZZ)/stamp | out
	cd out && for reader in $$(../$(FUZZ)/bin/python ../tests/fuzz/readers.py --list); do \
	    echo "$$reader for $(SECONDS) seconds"; \
	    ../$(FUZZ)/bin/python ../tests/fuzz/readers.py $$reader -max_total_time=$(SECONDS) -verbosity=0 || exit 1; \
	done

clean:
	rm -rf $(VENV) $(FUZZ) out site build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
