#!/usr/bin/env bash
# Installs what is missing, lints (scripts/lint.sh), builds, and runs the whole test suite; ends with CTest's summary. The unit
# tests, but not those that start servers, run a second time under the address and undefined-behaviour sanitizers. The programs
# are built once more with failpoints (common/base/failpoint.h), for tests that let them die at each. Where the CUDA Toolkit is
# found, they are compiled and linked with the CUDA backend too; its kernels are tested without a GPU either way.
#   scripts/test.sh [ctest arguments]
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/install_deps.sh --test
BATON_TEST_MODEL=$(scripts/fetch_model.sh)
export BATON_TEST_MODEL

# One cache for all build folders: an object does not depend on where it is built.
export CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1

for preset in dev asan failpoints; do
  [[ -f build/$preset/build.ninja ]] || cmake --preset "$preset" >/dev/null
done
echo "== lint"
scripts/lint.sh
echo "== build: dev"
NINJA_STATUS='[%f/%t, %es] ' ninja -C build/dev
echo "== build: unit tests under asan"
NINJA_STATUS='[%f/%t, %es] ' ninja -C build/asan unit_tests
echo "== build: programs with failpoints"
NINJA_STATUS='[%f/%t, %es] ' ninja -C build/failpoints baton-router baton-prefill-worker baton-decode-worker

cuda=
nvcc=$(command -v nvcc || ls /usr/local/cuda/bin/nvcc 2>/dev/null || true)
toolkit=${nvcc:+$(dirname "$(dirname "$(readlink -f "$nvcc")")")}
if [[ -n "$toolkit" && -n "$(find -L "$toolkit" -name cublasLt.h -print -quit)" &&
  -n "$(find -L "$toolkit" -name libcudart_static.a -print -quit)" ]]; then
  echo "== build: cuda, for the oldest architecture and the one of gpu_bundle.sh, warnings are errors"
  # As the dev build is compiled, so that ccache has all but the backend itself.
  cmake --preset cuda -DCMAKE_BUILD_TYPE=RelWithDebInfo "-DBATON_CUDA_ARCHITECTURES=80-real;90a-real" \
    -DCMAKE_CUDA_COMPILER="$nvcc" -DCMAKE_CUDA_FLAGS="-Werror all-warnings" >/dev/null
  NINJA_STATUS='[%f/%t, %es] ' ninja -C build/cuda baton baton-router baton-prefill-worker baton-decode-worker \
    baton-bench-device-attention gpu_tests
  cuda=yes
else
  echo "== build: cuda SKIPPED: no CUDA Toolkit here (nvcc, cublasLt.h and libcudart_static.a, 12.4 or newer)"
fi

echo "== tests: unit tests under asan (those of the real model, which would take minutes there, skip)"
env -u BATON_TEST_MODEL ctest --test-dir build/asan -L unit --output-on-failure -j "$(nproc)" "$@"
if [[ -n $cuda ]]; then
  echo "== tests: the kernels on a GPU; without one they skip, and say why"
  ctest --test-dir build/cuda -L gpu --output-on-failure "$@"
  sed -n 's/^SKIPPED \([0-9]* tests\) of [^ ]*\/\([^ /]*\): /\2: \1 skipped: /p' build/cuda/Testing/Temporary/LastTest.log || true
fi
echo "== tests: workers that fail at every point of a request"
ctest --test-dir build/failpoints -L failpoints --output-on-failure "$@"
echo "== tests: dev"
ctest --test-dir build/dev --output-on-failure "$@"
