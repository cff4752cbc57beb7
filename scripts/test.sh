#!/usr/bin/env bash
# Installs what is missing, builds, and runs the whole test suite; ends with CTest's summary. The unit tests, but not those
# that start servers, run a second time under the address and undefined-behaviour sanitizers.
#   scripts/test.sh [ctest arguments]
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/install_deps.sh --test
BATON_TEST_MODEL=$(scripts/fetch_model.sh)
export BATON_TEST_MODEL

for preset in dev asan; do
  [[ -f build/$preset/build.ninja ]] || cmake --preset "$preset" >/dev/null
done
echo "== build: dev"
NINJA_STATUS='[%f/%t, %es] ' ninja -C build/dev
echo "== build: unit tests under asan"
NINJA_STATUS='[%f/%t, %es] ' ninja -C build/asan unit_tests

echo "== tests: unit tests under asan (those of the real model, which would take minutes there, skip)"
env -u BATON_TEST_MODEL ctest --test-dir build/asan -L unit --output-on-failure -j "$(nproc)" "$@"
echo "== tests: dev"
ctest --test-dir build/dev --output-on-failure "$@"
