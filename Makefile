# What a new user types: `make demo`, `make test`. Everything else is for those who change ddetect.
VENV ?= .venv
PYTHON ?= python3
BIN := $(VENV)/bin
DEMO_STAMP := $(VENV)/.installed-demo
STAMP := $(VENV)/.installed
HANGBENCH_STAMP := $(VENV)/.installed-hangbench

# TensorFlow lives in an environment of its own: so do many jobs, and its protobuf is not always one that suits ddetect.
VENV_TF ?= .venv-tf
VENV_OLD_TF ?= .venv-tf-old
TF_STAMP := $(VENV_TF)/.installed
OLD_TF_STAMP := $(VENV_OLD_TF)/.installed
export DDETECT_TF_PYTHON ?= $(abspath $(VENV_TF))/bin/python

.PHONY: demo test test-fast scenarios long long-twins ends-busy frameworks lint bench hangbench proto clean .venv-tf

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 10) <= sys.version_info[:2] <= (3, 13))' || { \
		echo "ddetect needs Python 3.10 to 3.13 and $(PYTHON) is $$($(PYTHON) --version 2>&1);" \
			"name another one: make PYTHON=python3.12 $(MAKECMDGOALS)" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(DEMO_STAMP): pyproject.toml | $(BIN)/python
	$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[torch]'
	touch $@

$(STAMP): pyproject.toml | $(BIN)/python
	$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[dev,torch]'
	touch $@ $(DEMO_STAMP)

$(TF_STAMP):
	test -x $(VENV_TF)/bin/python || $(PYTHON) -m venv $(VENV_TF)
	$(VENV_TF)/bin/pip install --quiet --disable-pip-version-check tensorflow-cpu==2.21.0 tf_keras==2.21.0
	touch $@

$(OLD_TF_STAMP):
	test -x $(VENV_OLD_TF)/bin/python || $(PYTHON) -m venv $(VENV_OLD_TF)
	$(VENV_OLD_TF)/bin/pip install --quiet --disable-pip-version-check tensorflow-cpu==2.16.2 tf_keras==2.16.0
	touch $@

.venv-tf: $(TF_STAMP) ## TensorFlow for its scenarios: 1.6 GB

demo: $(DEMO_STAMP) ## a 4-rank DDP job gets stuck in one rank's DataLoader worker; ddetect names it
	$(BIN)/ddetect demo

BUSY := tests/live/test_tf_survives.py tests/live/test_ends_busy.py

test: $(STAMP) $(TF_STAMP) lint test-fast ## everything; live jobs three at a time, for they mostly wait, but what burns the cores alone
	$(BIN)/python -m pytest tests -m live $(BUSY:%=--ignore %) --numprocesses 3
	$(BIN)/python -m pytest $(BUSY)

test-fast: $(STAMP) ## no live jobs
	$(BIN)/python -m pytest tests -m "not live" --numprocesses 2

scenarios: $(STAMP) $(TF_STAMP) ## every live scenario, not only one per cause (about an hour)
	DDETECT_ALL_SCENARIOS=1 $(BIN)/python -m pytest tests/live/test_scenarios.py tests/live/test_healthy.py \
		tests/live/test_threads.py
	DDETECT_ALL_SCENARIOS=1 $(BIN)/python -m pytest tests/live/test_tensorflow.py --numprocesses 2

long: $(STAMP) $(TF_STAMP) ## programs at the paces of real jobs, at default settings: healthy ones and hangs (about an hour)
	$(BIN)/python -m tests.long $(ARGS)

long-twins: $(STAMP) $(TF_STAMP) ## the same kinds, each hung while something goes on beside it (about twenty minutes)
	$(BIN)/python -m tests.long --twins --out long-twins-out $(ARGS)

ends-busy: $(STAMP) ## a healthy job is ended while ddetect suspects it and both cores are busy, twenty times (ten minutes)
	DDETECT_ENDS=10 $(BIN)/python -m pytest tests/live/test_ends_busy.py

frameworks: $(STAMP) $(OLD_TF_STAMP) ## an older TensorFlow with a protobuf of its own, watched by ddetect from another environment
	DDETECT_TF_PYTHON=$(abspath $(VENV_OLD_TF))/bin/python DDETECT_OLD_TENSORFLOW=1 \
		$(BIN)/python -m pytest tests/live/test_tensorflow_old.py

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: $(STAMP) ## cost and speed, as ratios measured in one run
	$(BIN)/python -m tests.bench

$(HANGBENCH_STAMP): $(STAMP)
	$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[dev,torch,hangbench]'
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps nvidia-resiliency-ext==0.4.1
	touch $@

hangbench: $(HANGBENCH_STAMP) ## ddetect beside the tools that people use today; ARGS='causes healthy --tools launch,pyspy'
	$(BIN)/python -m tests.hangbench $(ARGS)

proto: $(STAMP) ## regenerate ddetect/wire/v1 from proto/
	$(BIN)/python -m grpc_tools.protoc -Iproto --python_out=. --pyi_out=. --grpc_python_out=. proto/ddetect/wire/v1/*.proto
	rm ddetect/wire/v1/snapshot_pb2_grpc.py ddetect/wire/v1/schema1_pb2_grpc.py # they hold no service

clean:
	rm -rf $(VENV) $(VENV_TF) $(VENV_OLD_TF) build *.egg-info ddetect-out
