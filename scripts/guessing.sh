#!/usr/bin/env bash
# Answers of random requests, and to the prompts of tests/data/reference/smollm2.json, with guessed tokens (of n-grams, of a draft
# model, forced by a form) and without, greedy and sampled, with a hand-off, without one, while decode workers are killed, and 16 at
# once. Compares every token, log probability and text with those of an undisturbed run without guesses, and its greedy tokens with
# the file's:
#   scripts/guessing.sh [--requests 500] [--max-tokens 64] [--seed 1]
# The draft model is the test model with weights of four bits.
# Builds what is missing first. Prints an account of each combination; the exit code is 1 if anything differed, or if too few guesses
# came true or were refused in one.
set -euo pipefail
cd "$(dirname "$0")/.."
draft=$(/usr/bin/python3 scripts/requantise_model.py "$(scripts/fetch_model.sh)" Q4_0)
exec scripts/with_servers.sh tests/integration/guessing.py --draft-model "$draft" "$@"
