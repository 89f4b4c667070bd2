# make         the main job: a transformer learns to write Z80 machine code and is scored on the sixteen tasks
# make test    everything that must pass: the house rules, every notebook, every test
# make docs    the site, in _docs/
# make lab     the book in JupyterLab
# make lab-test  every chapter run from top to bottom in JupyterLab, by a real browser (needs Chromium)
# make export  after editing a notebook: the package, clean notebooks and the README
# Each needs Python 3.11 or later and make, and creates .venv when it is missing. Besides:
#   PYTHON=python3.12             picks an interpreter
#   TORCH=cpu or TORCH=default    torch for processors alone, or the usual one, on Linux with some gigabytes of CUDA; if not said: cpu on a Linux without an NVIDIA card
#   CONSTRAINTS=                  the newest versions of everything in place of those that were tested

PYTHON ?= $(firstword $(foreach p,python3 python3.13 python3.12 python3.11,\
  $(shell $p -c 'import sys; sys.version_info >= (3, 11) and print("$p")' 2>/dev/null)))
bin := .venv/bin
python := $(bin)/python
with_bin := PATH="$(CURDIR)/$(bin):$$PATH"
TORCH ?= $(if $(filter Linux,$(shell uname)),$(if $(shell command -v nvidia-smi),default,cpu),default)
CONSTRAINTS ?= constraints.txt
torch := $(filter torch%,$(shell sed -n 's/^learn_requirements = //p' settings.ini))
pip := $(python) -m pip install --disable-pip-version-check --quiet $(CONSTRAINTS:%=--constraint %)
book := $(shell find nbs z80lit -type f -not -path '*/__pycache__/*' -not -path '*/.*') _quarto.yml settings.ini

.PHONY: reproduce test docs lab lab-test export
.DELETE_ON_ERROR:

reproduce: .venv/.learn
	$(bin)/z80lit reproduce

# The cheap rules first. The emulator is compiled once, so that two workers need not both do it; torch gets one thread for each worker.
test: export OMP_NUM_THREADS := 1
test: .venv/.dev
	$(python) -m pytest -q tests/test_house.py
	$(python) -c 'from z80lit.emulator import Z80; Z80().step()'
	$(MAKE) --no-print-directory .venv/.notebooks
	$(MAKE) --no-print-directory docs
	$(python) -m pytest tests --ignore tests/test_house.py --numprocesses 2 --dist loadfile --no-loadscope-reorder --durations 10

# Notebooks that passed are run again when the book or the environment has changed, or when .venv/.notebooks is gone.
.venv/.notebooks: $(book) .venv/.dev
	$(with_bin) nbdev_test --n_workers 2 --timing
	@touch $@

docs: _docs/sitemap.xml

_docs/sitemap.xml: $(book) .ci/build_docs.py | .venv/.dev
	$(python) .ci/build_docs.py
	@touch $@

lab: .venv/.dev
	$(with_bin) jupyter lab nbs

lab-test: .venv/.dev
	Z80LIT_LAB=1 $(python) -m pytest tests/test_lab_browser.py --durations 40

export: .venv/.dev
	$(with_bin) nbdev_export
	$(with_bin) nbdev_clean
	$(python) .ci/readme.py

# A stamp is written last, so an installation that was interrupted is taken up again.
.venv/.made:
	@test -n "$(PYTHON)" || { echo 'z80lit needs Python 3.11 or later, and none is on the PATH: make PYTHON=/path/to/python3'; exit 2; }
	$(python) -m pip --version >/dev/null 2>&1 || $(PYTHON) -m venv --clear .venv
	@touch $@

.venv/.torch: .venv/.made
ifeq ($(TORCH),cpu)
	@echo 'torch: the build for processors; for the usual one: make TORCH=default'
	@$(pip) --no-deps --retries 0 --timeout 20 --index-url https://download.pytorch.org/whl/cpu '$(torch)' 2>/dev/null || echo 'torch: no such build within reach, so the usual one'
endif
	@touch $@

.venv/.learn .venv/.dev: .venv/.%: .venv/.torch settings.ini setup.py $(CONSTRAINTS)
	$(pip) --editable '.[$*]'
	@touch $@
