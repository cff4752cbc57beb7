#!/usr/bin/env bash
# Installs what is missing, builds, and runs tests; ends with CTest's summary and where the time went.
#   scripts/test.sh [--thorough | --clients | --packages | --containers | --full] [ctest arguments]
#
# Without a form: builds the programs, and runs the unit tests and one integration test of each kind: an answer, a hand-off, the
# death of each worker, a drain, TLS, the HTTP APIs, structured answers, speculation, a folder and a split file.
#
# --thorough: everything that must be green besides; .ci/run calls both. The linters (scripts/lint.sh). All unit tests under the
# address and undefined-behaviour sanitizers. Programs with failpoints (common/base/failpoint.h), for tests that let them die at
# each. If the CUDA Toolkit is found, the programs with the CUDA backend too, and the kernels' machine code beside its budget
# (scripts/sass_gate.py); the kernels are tested without a GPU either way. All integration tests, and those of servers, manifests
# and packages.
# --clients: the dev build, and the recipes and clients of docs/clients.md: what they need from PyPI takes 2 GB of the cache
# folder.
# --packages: the dev build, and the package in a fresh Debian 12 (tests/deploy/package_life_test.py), which takes 400 MB there; then
# a release for the CPU from a clean clone, with a build of its own (tests/deploy/release_run_test.py).
# --containers: the dev build, the images, the README's line with `docker run`, and the manifests of deploy/kubernetes run by podman:
# scaling, rolling updates and kills under load. As root; four minutes after the build.
# --full: both of the first, and the long forms, which take hours: 50,000 seeds of the simulation, two disturbances in every order
# of events, answers by 300 JSON schemas (Qwen2.5-Coder-0.5B's, 478 MB), other people's clients, the package in a fresh Debian,
# SmolLM2 as a Hugging Face folder, Gemma 3 270M (which it fetches under Gemma's terms), 100,000 malformed requests of HTTP, a
# stream that is silent for 92 s behind the front, clients whose machine is gone for 100 s, a model file that is harmed at 1,000
# moments, the GPU bundle by CUDA 12.4, ThreadSanitizer, chaos of 1,000 requests in each way of ending a worker, 500 requests with
# guessed tokens on every way, and all planted bugs.
#
# With CI=true in the environment, a compiler warning is an error.
set -euo pipefail
cd "$(dirname "$0")/.."

form=plain
case "${1:-}" in
  --thorough | --clients | --packages | --containers | --full)
    form=${1#--}
    shift
    ;;
  --help)
    sed -n '2,/^set/s/^# \?//p' "$0"
    exit
    ;;
esac
ctest_arguments=("$@")

# shellcheck disable=SC1091  # a file of its own, which is checked too
source scripts/parts.sh

part "packages and the model"
if [[ $form == plain ]]; then
  scripts/install_deps.sh --test
else
  scripts/install_deps.sh --thorough
fi
BATON_TEST_MODEL=$(scripts/fetch_model.sh)
export BATON_TEST_MODEL

# All build folders share one cache, since an object does not depend on where it is built.
export CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1

export NINJA_STATUS='[%f/%t, %es] '
warnings=-DCMAKE_COMPILE_WARNING_AS_ERROR=$([[ -n ${CI:-} ]] && echo ON || echo OFF)
configure() {
  [[ -f build/$1/build.ninja ]] || cmake --preset "$1" "$warnings" >/dev/null
}
# run_tests BUILD SELECTION...: runs the tests of a build on all cores.
run_tests() {
  local build=$1
  shift
  ctest --test-dir "build/$build" --output-on-failure -j "$(nproc)" "$@" "${ctest_arguments[@]}"
}

# build_when_idle BUILD TARGET: builds in the background, on CPU time that nobody else wants.
idle_build=
idle_build_log=
build_when_idle() {
  local idle=(nice -n 19)
  ! chrt --idle 0 true 2>/dev/null || idle=(chrt --idle 0)
  idle_build_log=build/$1/idle_build.log
  # A session of its own, so that the compilers too end with this script. Where Linux shares the CPUs among sessions first
  # (autogroup), that one has the least weight: a priority counts only within a session, and servers may have their own.
  # shellcheck disable=SC2016  # the inner shell's arguments
  setsid bash -c '[[ ! -e /proc/self/autogroup ]] || echo 19 >/proc/self/autogroup; exec "$@"' idle_build \
    "${idle[@]}" ninja -C "build/$1" "$2" >"$idle_build_log" 2>&1 </dev/null &
  idle_build=$!
  trap 'kill -- "-$idle_build" 2>/dev/null || true' EXIT
}
# end_of_idle_build: shows that build and waits for its end.
end_of_idle_build() {
  tail -n +1 -f --pid="$idle_build" "$idle_build_log"
  wait "$idle_build"
  trap - EXIT
}

configure dev

test_plain() {
  part "build: programs and unit tests"
  ninja -C build/dev plain_tests
  part "tests: unit tests, and one integration test of each kind"
  run_tests dev -L plain
}

test_thorough() {
  configure asan
  configure failpoints
  part "lint"
  scripts/lint.sh
  part "build: everything"
  ninja -C build/dev
  part "build: programs with failpoints"
  ninja -C build/failpoints baton-router baton-prefill-worker baton-decode-worker

  local nvcc toolkit cuda=
  nvcc=$(command -v nvcc || ls /usr/local/cuda/bin/nvcc 2>/dev/null || true)
  toolkit=${nvcc:+$(dirname "$(dirname "$(readlink -f "$nvcc")")")}
  if [[ -n "$toolkit" && -n "$(find -L "$toolkit" -name cublasLt.h -print -quit)" &&
    -n "$(find -L "$toolkit" -name libcudart_static.a -print -quit)" ]]; then
    part "build: cuda, for the oldest architecture and the one of gpu_bundle.sh"
    # Compiled with the options of the dev build, so that ccache has all but the backend itself.
    cmake --preset cuda -DCMAKE_BUILD_TYPE=RelWithDebInfo "-DBATON_CUDA_ARCHITECTURES=80-real;90a-real" \
      -DCMAKE_CUDA_COMPILER="$nvcc" "$warnings" >/dev/null
    ninja -C build/cuda baton baton-router baton-prefill-worker baton-decode-worker \
      baton-bench-device-attention gpu_tests
    cuda=yes
  else
    part "build: cuda SKIPPED: no CUDA Toolkit here (nvcc, cublasLt.h and libcudart_static.a, 12.4 or newer)"
  fi
  if [[ -n $cuda ]]; then
    part "tests: the kernels' machine code; the kernels on a GPU, without one they skip, and say why"
    ctest --test-dir build/cuda -L gpu --output-on-failure "${ctest_arguments[@]}"
    sed -n 's/^SKIPPED \([0-9]* tests\) of [^ ]*\/\([^ /]*\): /\2: \1 skipped: /p' build/cuda/Testing/Temporary/LastTest.log || true
  fi
  part "tests: the other unit tests that round, measure or need the real model, as they are released"
  run_tests dev -L released -LE plain

  # Tests of servers wait for more than half of the time: the longest build has the rest of it.
  build_when_idle asan unit_tests
  part "tests: servers, programs, manifests, packages"
  run_tests dev -LE 'unit|plain'
  part "tests: workers that fail at every point of a request"
  run_tests failpoints -L failpoints
  part "build: unit tests under asan, begun when the tests of servers began"
  end_of_idle_build
  part "tests: unit tests under asan (those of the real model, which would take minutes there, skip)"
  (unset BATON_TEST_MODEL && run_tests asan -L unit)
}

test_clients() {
  BATON_BIN=$PWD/build/dev/bin BATON_STUBS=$PWD/build/dev/python_stubs PYTHONDONTWRITEBYTECODE=1 \
    /usr/bin/python3 -m pytest -q -rs -p no:cacheprovider tests/clients tests/integration/test_reverse_proxy.py
}

test_packages() {
  local code=0
  /usr/bin/python3 tests/deploy/package_life_test.py build/dev || code=$?
  [[ $code -eq 0 || $code -eq 77 ]] || return $code  # 77: skipped
  PYTHONDONTWRITEBYTECODE=1 /usr/bin/python3 tests/deploy/release_run_test.py
}

test_containers() {
  BATON_CONTAINERS=all BATON_STUBS=$PWD/build/dev/python_stubs PYTHONDONTWRITEBYTECODE=1 \
    /usr/bin/python3 tests/deploy/containers_test.py build/dev/bin
}

test_long() {
  part "long: 50,000 seeds of the simulation, twice each"
  BATON_SIM_SEEDS=50000 build/dev/tests/simulation_test
  part "long: two disturbances in every order of events"
  BATON_INTERLEAVING_DISTURBANCES=2 build/dev/tests/interleavings_test
  part "long: 300 JSON schemas: 100 random answers of each, masks beside llguidance's, answers of servers whose workers die"
  walks=(build/dev/tests/grammar_walks build/dev/bin/baton-grammar-compiler)
  SCHEMA_WALKS=100 /usr/bin/python3 tests/common/grammar/schemas_test.py "${walks[@]}"
  SCHEMA_PREFIXES=1000 /usr/bin/python3 tests/common/grammar/llguidance_test.py "${walks[@]}"
  export BATON_BIN=$PWD/build/dev/bin BATON_STUBS=$PWD/build/dev/python_stubs
  schemas=(/usr/bin/python3 -m pytest -q -s -p no:cacheprovider tests/integration/test_structured_schemas.py)
  BATON_TEST_MODEL=$(scripts/fetch_qwen_coder.sh | tail -1) STRUCTURED_SCHEMAS=all "${schemas[@]}" -k almost_all_finish
  STRUCTURED_SCHEMAS=all "${schemas[@]}" -k killed
  part "long: SmolLM2 in F16 as a Hugging Face folder has the tokens of the GGUF"
  /usr/bin/python3 -m pytest -q -s -p no:cacheprovider tests/integration/test_hugging_face_folder.py
  part "long: Gemma 3 270M Q4_K_M against float32 and SentencePiece"
  BATON_TEST_MODEL=$(scripts/fetch_gemma.sh) \
    /usr/bin/python3 -m pytest -q -s -p no:cacheprovider tests/integration/test_gemma.py
  part "long: other people's clients"
  test_clients
  part "long: the package in a fresh Debian 12, and a release from a clean clone"
  test_packages || [[ $? -eq 77 ]]
  part "long: the manifests, run by podman"
  test_containers || [[ $? -eq 77 ]]  # where podman cannot run
  part "long: 100,000 malformed requests of HTTP"
  BATON_MALFORMED=100000 /usr/bin/python3 -m pytest -q -s -p no:cacheprovider tests/integration/test_malformed_http.py
  part "long: a stream that is silent for 92 s passes the front"
  BATON_SILENT_STREAM_S=92 /usr/bin/python3 -m pytest -q -s -p no:cacheprovider tests/integration/test_front.py -k was_silent
  part "long: idle connections of clients whose machine is gone end within 100 s, others stay"
  BATON_VANISHED_CLIENTS=1 /usr/bin/python3 -m pytest -q -s -p no:cacheprovider tests/integration/test_vanished_clients.py
  part "long: a model file that is cut, written to and replaced at 1,000 moments"
  BATON_CUTS=334 /usr/bin/python3 -m pytest -q -s -p no:cacheprovider tests/integration/test_model_file.py -k harm
  part "long: the GPU bundle by CUDA Toolkit 12.4"
  CUDACXX=$(scripts/fetch_cuda12.sh)/bin/nvcc scripts/gpu_bundle.sh
  part "long: threads under ThreadSanitizer"
  configure tsan
  ninja -C build/tsan tsan_tests
  ctest --test-dir build/tsan -L tsan --output-on-failure
  for how in kill restart stop rolling router; do
    part "long: chaos, $how"
    scripts/chaos.sh --requests 1000 --how "$how"
  done
  part "long: 500 requests with guessed tokens and without, on every way"
  scripts/guessing.sh --requests 500
  part "long: planted bugs"
  scripts/planted_bugs.py
}

case $form in
  plain)
    test_plain
    ;;
  thorough)
    test_thorough
    ;;
  clients)
    ninja -C build/dev programs mock_workers
    test_clients
    exit
    ;;
  packages)
    ninja -C build/dev baton_reference baton-grammar-compiler
    test_packages
    exit
    ;;
  containers)
    ninja -C build/dev programs
    test_containers
    exit
    ;;
  full)
    test_plain
    test_thorough
    test_long
    ;;
esac
where_the_time_went
