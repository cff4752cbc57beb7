#!/usr/bin/env bash
# Prints the path of promtool: that of PATH, else Debian's, fetched once into the cache folder:
# ${BATON_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/baton}. The package is unpacked and not installed, for installed it would start a
# Prometheus.
set -euo pipefail

command -v promtool && exit
cache=${BATON_CACHE:-${XDG_CACHE_HOME:-${HOME:-/tmp}/.cache}/baton}
if [[ ! -x $cache/promtool ]]; then
  mkdir -p "$cache"
  work=$(mktemp -d -p "$cache")
  trap 'rm -rf "$work"' EXIT
  echo "fetching promtool (19 MB) with apt-get" >&2
  cd "$work"
  apt-get download -qq prometheus >&2
  dpkg-deb --fsys-tarfile prometheus_*.deb | tar -x ./usr/bin/promtool
  mv usr/bin/promtool "$cache/promtool"  # the last step, so that an incomplete download is never taken for the program
fi
echo "$cache/promtool"
