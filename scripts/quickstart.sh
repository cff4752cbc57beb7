#!/usr/bin/env bash
# From a fresh Debian 12 machine to an answer:   scripts/quickstart.sh "What is the capital of France?"
# Installs what is missing, builds, fetches a small model, starts router + prefill worker + decode worker, and streams
# the answer. Later runs only do what is new.
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/install_deps.sh
# The build of scripts/test.sh, which then has only the tests to compile.
if [[ ! -f build/dev/build.ninja ]]; then
  cmake --preset dev >/dev/null
fi
# Shows ninja's progress line, and nothing if there is nothing to build.
# shellcheck disable=SC2143  # grep -q would end ninja in the middle of a line
if [[ -n $(ninja -C build/dev -n programs | grep -v 'no work to do' | grep -v 'Entering directory') ]]; then
  echo "building (about 8 minutes on 2 cores the first time)"
  NINJA_STATUS='[%f/%t, %es] ' ninja -C build/dev programs
fi
model=$(scripts/fetch_model.sh)
# Such a small model rambles if it is sampled with a high temperature, or if no language is requested.
exec build/dev/bin/baton run --model "$model" --disaggregate always --temperature 0 \
  --system "You are a helpful assistant. Answer briefly and in English." \
  "${@:-What is the capital of France?}"
