#!/usr/bin/env bash
# Answers of random requests with guessed tokens and without, greedy and sampled, with a hand-off, without one, while decode
# workers are killed, and 16 at once. Compares every token, log probability and text with those of an undisturbed run without guesses:
#   scripts/guessing.sh [--requests 500] [--max-tokens 64] [--seed 1]
# Builds what is missing first. Prints an account of each combination; the exit code is 1 if anything differed, or if too few guesses
# came true or were refused in one.
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/install_deps.sh --test
[[ -f build/dev/build.ninja ]] || cmake --preset dev >/dev/null
NINJA_STATUS='[%f/%t, %es] ' ninja -C build/dev baton-router baton-prefill-worker baton-decode-worker >&2
export BATON_TEST_MODEL=${BATON_TEST_MODEL:-$(scripts/fetch_model.sh)}
export BATON_BIN=$PWD/build/dev/bin BATON_STUBS=$PWD/build/dev/python_stubs PYTHONDONTWRITEBYTECODE=1
exec /usr/bin/python3 tests/integration/guessing.py "$@"
