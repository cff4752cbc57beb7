#!/usr/bin/env bash
# Runs a Python program that starts router and workers of build/dev with the test model, and builds them first if they are missing:
#   scripts/with_servers.sh PROGRAM.py [ARGUMENT...]
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/install_deps.sh --test
[[ -f build/dev/build.ninja ]] || cmake --preset dev >/dev/null
NINJA_STATUS='[%f/%t, %es] ' ninja -C build/dev baton-router baton-prefill-worker baton-decode-worker >&2
export BATON_TEST_MODEL=${BATON_TEST_MODEL:-$(scripts/fetch_model.sh)}
export BATON_BIN=$PWD/build/dev/bin BATON_STUBS=$PWD/build/dev/python_stubs PYTHONDONTWRITEBYTECODE=1
exec /usr/bin/python3 "$@"
