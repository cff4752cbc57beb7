#!/usr/bin/env bash
# Prints the folder of what scripts fetch or build once and keep: $BATON_CACHE, or else baton in $XDG_CACHE_HOME or $HOME/.cache.
# Never one in /tmp, where anybody could have put a library that is linked into every program.
set -euo pipefail

if [[ -n ${BATON_CACHE:-} ]]; then
  echo "$BATON_CACHE"
elif [[ -n ${XDG_CACHE_HOME:-}${HOME:-} ]]; then
  echo "${XDG_CACHE_HOME:-$HOME/.cache}/baton"
else
  echo "cache_folder: HOME is not set; set BATON_CACHE to a folder of your own" >&2
  exit 2
fi
