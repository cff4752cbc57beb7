#!/usr/bin/env bash
# Cancels requests at random times on a prefill and a decode worker with the real model. Prints how long the work went on and
# when the last block was back.
#   scripts/cancel.sh [CANCELS, default 10000] [tiny: on the tests' model, where a step takes no time]
# Builds what is missing first.
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/install_deps.sh --test
[[ -f build/dev/build.ninja ]] || cmake --preset dev >/dev/null
NINJA_STATUS='[%f/%t, %es] ' ninja -C build/dev cancel_test >&2
export BATON_CANCELS=${1:-10000}
if [[ ${2:-} != tiny ]]; then
  BATON_CANCEL_MODEL=${BATON_TEST_MODEL:-$(scripts/fetch_model.sh)}
  export BATON_CANCEL_MODEL
fi
exec build/dev/tests/cancel_test
