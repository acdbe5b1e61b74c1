.PHONY: help install check house test coverage times learner slow fuzz full wheel docs studio bench speed fidelity

PYTHON ?= .venv/bin/python

help:            ## this list
	@grep -E '^[a-z%-]+: .*##' Makefile | sed 's/: .*##/\t/'

install:         ## a virtual environment with everything for development
	python3 -m venv .venv
	$(PYTHON) -m pip install --quiet torch==2.13.0
	$(PYTHON) -m pip install --quiet --editable ".[train,lora,sb3,trl,test,check]"

check:           ## format, lint, types, import contracts, structure
	$(PYTHON) -m ruff format --check .
	$(PYTHON) -m ruff check .
	$(PYTHON) -m pyright --pythonpath $(PYTHON)
	$(dir $(PYTHON))lint-imports
	$(PYTHON) tools/house.py --limits

house:           ## rooms and arrows, circles of rooms or files, and limits
	@$(PYTHON) tools/house.py

test:            ## the fast tests
	$(PYTHON) -m pytest

coverage:        ## the share of the package's lines that the fast tests run, by file; what they start in other processes is not seen
	$(PYTHON) -m coverage run -m pytest --numprocesses=0
	$(PYTHON) -m coverage report

times:           ## the fast tests, the seconds of each room, and the longest tests
	$(PYTHON) tools/times.py

LEARNER = tests/policy tests/integrations tests/bench/test_export.py tests/bench/test_export_rated.py tests/bench/test_export_readers.py tests/users/test_reader.py tests/environment/test_strategy.py

learner:         ## the fast tests that need torch
	OMP_WAIT_POLICY=passive $(PYTHON) -m pytest $(LEARNER)

slow:            ## the slow tests: kill -9, other Python versions
	$(PYTHON) -m pytest -m slow --durations=10

fuzz:            ## the fuzzers with thousands of new examples, some minutes
	$(PYTHON) -m pytest -m fuzz

full:            ## what takes too long for every change: lowest versions, other Pythons and openai, long fuzzing; an hour
	.ci/full

wheel:           ## the distributions, and the wheel in fresh environments: make wheel PYTHONS="python3.11 python3.13"
	.ci/wheel $(PYTHONS)

integration-%:   ## one framework in an environment of its own: make integration-verifiers
	.ci/integration $*

docs:            ## the documentation site, in build/site; needs: pip install -e ".[docs]"
	NO_MKDOCS_2_WARNING=1 $(PYTHON) -m mkdocs build --strict

studio:          ## the studio's pages, from studio/ into the package; needs node 20
	cd studio && npm ci --silent && npx vite build --logLevel warn

bench:           ## the benchmark of all baselines on the test personas
	$(PYTHON) -m rlver_gym bench

fidelity:        ## the shipped weights again from the corpus, and how faithful they are
	$(PYTHON) research/fit_english.py
	$(PYTHON) research/fidelity.py recordings/en/test

speed:           ## speed and memory
	$(PYTHON) benchmarks/speed.py
