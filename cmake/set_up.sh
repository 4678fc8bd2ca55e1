# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# What ./quickstart, ./test and .ci/run share: the packages a build needs and how they get here, how a step is
# run and how it fails, building a preset, and validating result files. Sourced by bash, never run by itself.
# A script sets `root` (the repository) and `script` (its own name, for messages) before it sources this file.

dry_run=${dry_run:-no}
system_python=/usr/bin/python3   # another python may come first on PATH and see none of the system's modules

# One package a line, each with its reason. The names are the same on Debian 12, Debian 13 and Ubuntu 24.04.
packages=(
  g++                    # the compiler (12 or later), with the sanitizers' runtimes and the C library's headers
  cmake                  # 3.25 or later, for the presets
  ninja-build            # what the presets generate for
  git                    # every result records the revision that made it
  nlohmann-json3-dev     # result files
  libpugixml-dev         # reads NCCL's topology XML
  libbenchmark-dev       # Google Benchmark drives the timings
  libgtest-dev           # GoogleTest, the tests
  libgmock-dev           # belongs to GoogleTest: its CMake package names the library
  libdnnl-dev            # oneDNN, the fast backend of the models on a CPU
  ocl-icd-opencl-dev     # Debian 12's oneDNN is built with OpenCL, and its CMake package insists on the headers
  zlib1g-dev             # reads Fashion-MNIST's .gz files
  dataset-fashion-mnist  # the images that the models train on
  python3                # the report and the tests of it
  python3-plotly         # its pictures
  esbuild                # minifies plotly.js, which Debian ships as 8.6 MB
  python3-matplotlib     # pictures for a paper or a README: python3 -m plots.figures
  python3-numpy          # plotly's and the report's arrays
  python3-jsonschema     # validates result files against results/schema.json
)

# For ./test only.
test_packages=(
  openmpi-bin            # mpirun: a process for each rank
  libopenmpi-dev         # what they are built with
  iproute2               # network namespaces, as hosts
  libsimgrid-dev         # another simulator, beside ours
)

# For ./test --browser only. Ubuntu has no such packages.
browser_packages=(
  chromium               # the browser that the page is tried in
  chromium-driver        # steers it
  python3-selenium       # speaks with the driver
)

say() { printf '%s: %s\n' "$script" "$*"; }
fail() { printf '%s: %s\n' "$script" "$2" >&2; exit "$1"; }

# quoted COMMAND...: as one would type it.
quoted() {
  local word line=''
  for word in "$@"; do
    if [[ ! $word =~ ^[A-Za-z0-9_./:=,@%+-]+$ ]]; then word=${word@Q}; fi
    line+=" $word"
  done
  printf '%s' "${line# }"
}

# attempt NAME COMMAND...: say it and do it (in a dry run, only say it); its status. step: the same, and a failure ends.
attempt() {
  local name=$1 status=0 began=$SECONDS
  shift
  printf '\n== %s\n   %s\n' "$name" "$(quoted "$@")"
  if [[ $dry_run == yes ]]; then return; fi
  "$@" || status=$?
  printf '   (%s: %d s)\n' "$name" $((SECONDS - began))
  return "$status"
}
step() {
  local status=0
  attempt "$@" || status=$?
  if ((status != 0)); then fail "$status" "step '$1' failed with status $status"; fi
}

is_installed() { dpkg-query -W -f '${db:Status-Status}\n' "$1" 2>/dev/null | grep -qx installed; }

# install PACKAGE...: what is missing of it, with apt-get; where that is not allowed, say what to type and end.
install() {
  local package missing=() as_root=()
  if ! command -v apt-get >/dev/null || ! command -v dpkg-query >/dev/null; then
    say "this is no Debian or Ubuntu, so nothing is installed. Needed are the equivalents of: $*"
    return
  fi
  for package in "$@"; do
    if ! is_installed "$package"; then missing+=("$package"); fi
  done
  if ((${#missing[@]} == 0)); then
    say "packages: all $# are here"
    return
  fi
  say "packages missing: ${missing[*]}"
  local apt=(env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300)
  if ((EUID != 0)); then
    if sudo -n true 2>/dev/null; then
      as_root=(sudo -n)
    elif [[ -t 0 && $dry_run == no ]] && command -v sudo >/dev/null; then
      as_root=(sudo)
    elif [[ $dry_run == no ]]; then
      printf 'apt-get update && apt-get install --yes --no-install-recommends %s\n' "${missing[*]}"
      fail 1 "${#missing[@]} packages are missing, and they cannot be installed here: run the line above as root"
    fi
  fi
  attempt "fetch the lists of packages" "${as_root[@]}" "${apt[@]}" update --quiet ||
    say "some list was not fetched (status $?): the next step tells whether that matters"
  step "install the missing packages" "${as_root[@]}" "${apt[@]}" install --yes --no-install-recommends \
    "${missing[@]}"
}

# A python that sees the system's modules, wherever PATH points: .venv, made from the system's own.
set_up_python() {
  if "$root/.venv/bin/python" -c 'import jsonschema, numpy, plotly' 2>/dev/null; then return; fi
  step "make .venv" "$system_python" -m venv --clear --without-pip --system-site-packages "$root/.venv"
  step "import what the report needs" "$root/.venv/bin/python" -c 'import jsonschema, numpy, plotly'
}

set_up() {
  install "${packages[@]}"
  set_up_python
}

# Where nvcc is, the CUDA half is built too; nothing of it is ever installed here.
has_cuda_toolkit() { command -v nvcc >/dev/null || [[ -x ${CUDA_PATH:-/usr/local/cuda}/bin/nvcc ]]; }

# How many compilers at once: one a core, and 1.5 GB of memory for each.
build_jobs() {
  local cores memory limit
  cores=$(nproc)
  memory=$(sed -n 's/^MemAvailable: *\([0-9]*\) kB$/\1/p' /proc/meminfo)
  limit=$(cat /sys/fs/cgroup/memory.max 2>/dev/null || true)   # a container's limit, in bytes, or "max"
  if [[ $limit =~ ^[0-9]+$ ]] && ((limit / 1024 < memory)); then memory=$((limit / 1024)); fi
  local fit=$((memory / 1500000))
  if ((fit < 1)); then fit=1; fi
  echo $((fit < cores ? fit : cores))
}

# build PRESET [TARGET...]: configure and build; all targets where none is named. `wrapper` stands before the build.
wrapper=()
build() {
  local preset=$1 targets=()
  shift
  if (($# > 0)); then targets=(--target "$@"); fi
  step "configure $preset" cmake -S "$root" --preset "$preset"
  step "build $preset" "${wrapper[@]}" cmake --build "$root/build/$preset" --parallel "$(build_jobs)" "${targets[@]}"
}

# validate FILE...: each against results/schema.json; every error with its file and its place.
validate() {
  step "validate $# result files" "$root/.venv/bin/python" - "$root/results/schema.json" "$@" <<'PYTHON'
import json, sys
from jsonschema.validators import validator_for

with open(sys.argv[1], encoding="utf-8") as file:
    schema = json.load(file)
validator = validator_for(schema)(schema)
wrong = 0
for name in sys.argv[2:]:
    with open(name, encoding="utf-8") as file:
        report = json.load(file)
    for error in validator.iter_errors(report):
        print(f"{name}: {error.json_path}: {error.message[:300]}", file=sys.stderr)
        wrong += 1
sys.exit(1 if wrong else 0)
PYTHON
}
