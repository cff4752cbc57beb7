#!/usr/bin/env bash
# fetch_prometheus.sh prometheus|promtool: prints the path of that program: the one of PATH, else Debian's, fetched once into the cache
# folder: ${BATON_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/baton}. The package is unpacked and not installed, for installed it would
# start a Prometheus.
set -euo pipefail

program=${1:-}
case "$program" in
  prometheus | promtool) ;;
  *)
    echo "usage: fetch_prometheus.sh prometheus|promtool" >&2
    exit 2
    ;;
esac

command -v "$program" && exit
cache=$("$(dirname "$0")/cache_folder.sh")
if [[ ! -x $cache/$program ]]; then
  mkdir -p "$cache"
  work=$(mktemp -d -p "$cache")
  trap 'rm -rf "$work"' EXIT
  echo "fetching Prometheus (19 MB) with apt-get" >&2
  cd "$work"
  apt-get download -qq prometheus >&2
  dpkg-deb --fsys-tarfile prometheus_*.deb | tar -x ./usr/bin/prometheus ./usr/bin/promtool
  mv usr/bin/* "$cache/"  # the last step, so that an incomplete download is never taken for a program
fi
echo "$cache/$program"
