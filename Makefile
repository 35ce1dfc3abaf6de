# `make run` and `make test` do all set-up on a fresh machine: virtual environment, install, work.
# `make cards boards` writes every generated page again; tests/meta/test_generated_pages.py checks them.
PYTHON ?= python3
SEED ?= 0
SIZE ?= 1
RECORD ?=
VENV ?= .venv
BIN := $(VENV)/bin
PIP := $(BIN)/pip --disable-pip-version-check -q
STAMP := $(VENV)/.installed
DEV_STAMP := $(VENV)/.installed-dev
EXTRAS_STAMP := $(VENV)/.installed-extras
DOCS_STAMP := $(VENV)/.installed-docs
export NO_MKDOCS_2_WARNING := 1
# tests start a hundred processes: each would compile all sources again
unexport PYTHONDONTWRITEBYTECODE
DATASETS := darcy swe nse burgers2d burgers3d elasticity pipe airfoil car
# a slice through 533 nodes shows their cells rather than the field: the pyramid has the paper's mesh
TASKS := darcy darcy_threshold swe nse burgers2d burgers2d_lively burgers3d:1867 \
	burgers3d_lively:1867 elasticity pipe airfoil airfoil_family car
TILES := darcy_threshold,swe,nse,burgers2d_lively,burgers3d_lively:1867,elasticity,pipe,airfoil_family,car

.PHONY: run test test-slow campaign test-extras cards pictures boards docs site defaults lint clean

run: $(STAMP)
	$(BIN)/gsnobench run --model gsno --dataset swe

test: $(DEV_STAMP)
	$(BIN)/python -m pytest -n 2 --dist loadfile -q

test-slow: $(EXTRAS_STAMP)
	$(BIN)/python -m pytest -m slow -q tests tests/extras

campaign: $(EXTRAS_STAMP)
	GSNOBENCH_CAMPAIGN_SEED=$(SEED) GSNOBENCH_CAMPAIGN_SIZE=$(SIZE) \
		GSNOBENCH_CAMPAIGN_RECORD=$(RECORD) \
		$(BIN)/python -m pytest -m slow -q tests/campaign

cards: $(STAMP)
	for name in gsno deeponet mgkn coral geofno gnot transolver amg sp2gno; do \
		$(BIN)/gsnobench show $$name --card --results leaderboards/results \
			--tuning leaderboards/tuning \
			> leaderboards/cards/$$name.md || exit 1; done
	for dataset in $(DATASETS); do \
		$(BIN)/gsnobench show $$dataset --card --results leaderboards/results \
			--into docs/datasets/$$dataset.md || exit 1; done

# one sample per task is made, so this takes minutes; the names are those of pages and site
pictures: $(STAMP)
	mkdir -p leaderboards/pictures/tiles
	for task in $(TASKS); do \
		name=$${task%:*}; \
		$(BIN)/gsnobench data picture $$task --out leaderboards/pictures/$$name.png || exit 1; \
		$(BIN)/gsnobench data picture $$task --tile \
			--out leaderboards/pictures/tiles/$$name.png || exit 1; done
	$(BIN)/gsnobench data picture $(TILES) --out leaderboards/pictures/geometries.png
	$(BIN)/gsnobench data picture swe --data.resolution 1830 --out leaderboards/pictures/swe.gif

boards: $(STAMP)
	$(BIN)/gsnobench leaderboard about --out leaderboards --package gsnobench
	$(BIN)/gsnobench leaderboard build --out leaderboards \
		--ledger leaderboards/reproduction.md --readme README.md

docs: $(DOCS_STAMP)
	$(BIN)/mkdocs build --strict -q

site: boards docs
	@echo "public/ holds the boards and the documentation: any static host serves it"

defaults: $(STAMP)
	GSNOBENCH_PIN=1 $(BIN)/python -m pytest -q tests/meta/test_defaults.py

test-extras: $(EXTRAS_STAMP)
	$(BIN)/python -m pytest tests/extras -q

lint: $(DEV_STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy gsnobench plugins

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(STAMP): $(VENV)/bin/python pyproject.toml constraints.txt
	$(PIP) install -c constraints.txt -e .
	touch $@

$(DEV_STAMP): $(VENV)/bin/python pyproject.toml constraints.txt
	$(PIP) install -c constraints.txt -e ".[dev]"
	touch $@ $(STAMP)

$(EXTRAS_STAMP): $(DEV_STAMP)
	$(PIP) install -c constraints.txt -e ".[dev,docs,ray,slurm,postgres,extras]"
	touch $@

$(DOCS_STAMP): $(STAMP)
	$(PIP) install -c constraints.txt -e ".[docs]"
	touch $@

clean:
	rm -rf $(VENV) build dist public *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
