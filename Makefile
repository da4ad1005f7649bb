PY = .venv/bin/python
PIP = $(PY) -m pip --disable-pip-version-check install --quiet

# The stamps hold what was installed; a changed pyproject.toml installs again.
.venv/dev: pyproject.toml
	@echo "installing into .venv: this takes some minutes and says nothing"
	test -x $(PY) || python3 -m venv .venv
	$(PIP) -e '.[dev]'
	touch .venv/dev

.venv/demo: pyproject.toml constraints.txt
	@echo "installing into .venv: this takes some minutes and says nothing"
	test -x $(PY) || python3 -m venv .venv
	$(PIP) -e '.[torch,demo]' -c constraints.txt
	touch .venv/demo

setup: .venv/dev  ## the environment for development and tests

demo: .venv/demo  ## sets up, then trains the digits with a fleet on this machine
	$(PY) -m p2pd.cli demo --keep

test: check  ## sets up, then everything: format, lint, types, layers, sizes, all tests
	$(PY) -m pytest -q tests

check: setup  ## what each commit must pass besides the tests
	$(PY) -m ruff format --check .
	$(PY) -m ruff check .
	$(PY) -m mypy
	.venv/bin/lint-imports
	$(PY) scripts/check_sizes.py p2pd roles scripts tests

format: setup
	$(PY) -m ruff format .
	$(PY) -m ruff check --fix .

fleet: setup  ## five hundred simulated fleets under every fault: minutes
	$(PY) -m p2pd.cli sim --seeds 500 --windows 20 --faults all --json

sim: setup  ## fifty simulated fleets under faults
	$(PY) -m p2pd.cli sim --seeds 50 --windows 10

breaks: setup  ## each defence switched off: its attack must be seen within a hundred fleets under all faults
	for name in $$($(PY) -m p2pd.cli sim --break list); do echo $$name; $(PY) -m p2pd.cli sim --break $$name --seeds 100 || exit 1; done

crash: setup  ## kill -9 at two hundred random instants of a real fleet, in five runs
	for seed in 1 2 3 4 5; do $(PY) -m tests.crash.lane --kills 40 --seed $$seed || exit 1; done

search: setup  ## every way in which few validators can vote in few rounds: ten minutes
	$(PY) -m tests.core.voting.full_search

hostile: setup  ## a real fleet under twelve attacks, one after the other
	$(PY) -m tests.hostile.lane --json

cases: setup  ## reported faults whose length or size is stated, as stated, on real daemons: eleven minutes
	$(PY) -m tests.faults.lane

MNIST = mnist

convergence: setup  ## fleets beside central training, MNIST in the directory MNIST: half an hour; then the curves in docs
	$(PY) -m scripts.convergence --mnist $(MNIST)
	$(PY) -m scripts.convergence_page

devices: setup  ## several workers of one trainer, on GPUs or the CPU, that go well and wrong: some minutes
	$(PY) -m tests.workload.devices.lane

utilisation: setup  ## how busy devices are behind 100 ms and 20 Mbit/s: six minutes, root or unshare -r
	$(PY) -m scripts.utilisation

soak: setup  ## memory over 100,000 requests on one connection: some minutes
	$(PY) -m p2pd.cli bench soak

.venv/fuzz: pyproject.toml
	test -x $(PY) || python3 -m venv .venv
	$(PIP) -e '.[dev,fuzz]'
	touch .venv/fuzz

SECONDS = 20

fuzz: .venv/fuzz  ## coverage-guided fuzzing of all that reads bytes: SECONDS=20 for each target
	$(PY) -m tests.fuzz.lane --seconds $(SECONDS)

.PHONY: fleet setup demo test check format sim breaks crash search hostile cases devices soak fuzz convergence utilisation
