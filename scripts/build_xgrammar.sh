#!/usr/bin/env bash
# Prints the folder with XGrammar 0.2.8 (Apache-2.0; it contains picojson, BSD-2-Clause, and DLPack's header, Apache-2.0): include/,
# lib/libxgrammar.a and its licences. Builds it once into the cache folder (a minute of CPU), from the source package on PyPI:
# ${BATON_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/baton}.
set -euo pipefail

readonly name=xgrammar-0.2.8
readonly sha256=8305646fd2b319d6c3003f51a1665e54cbbe9cba1fb636bc41d0b46434ccbb80
cache=$("$(dirname "$0")/cache_folder.sh")
# The folder is named after all that the library depends on, so that a change of these lines builds it anew.
steps=$(dirname "$0")/../common/grammar/xgrammar_steps.h
recipe=$({ cat "$0" "$steps"; c++ --version; } | sha256sum | cut -c1-12)
folder=$cache/$name-$recipe

if [[ ! -d $folder ]]; then
  mkdir -p "$cache"
  work=$(mktemp -d -p "$cache")
  trap 'rm -rf "$work"' EXIT

  # pip asks a source package for its metadata, for which it would install the package's build system and run it. This module
  # stands in its place, so that nothing runs that was not compared with the hash.
  mkdir -p "$work/pip/scikit_build_core"
  touch "$work/pip/scikit_build_core/__init__.py"
  cat >"$work/pip/scikit_build_core/build.py" <<'PY'
import pathlib


def prepare_metadata_for_build_wheel(folder, settings=None):
    info = pathlib.Path(folder, "xgrammar-0.2.8.dist-info")
    info.mkdir()
    info.joinpath("METADATA").write_text("Metadata-Version: 2.1\nName: xgrammar\nVersion: 0.2.8\n")
    return info.name
PY
  echo "fetching $name (3 MB) with pip" >&2
  echo "xgrammar==0.2.8 --hash=sha256:$sha256" >"$work/requirements.txt"
  PYTHONPATH=$work/pip python3 -m pip download --no-deps --no-cache-dir --retries 10 --disable-pip-version-check --no-binary :all: \
    --no-build-isolation --require-hashes --dest "$work" --requirement "$work/requirements.txt" >&2
  got=$(sha256sum "$work/$name.tar.gz" | cut -d' ' -f1)
  if [[ $got != "$sha256" ]]; then
    echo "build_xgrammar: $name.tar.gz has SHA-256 $got, expected $sha256: the download is damaged, try again" >&2
    exit 2
  fi
  tar -C "$work" -xzf "$work/$name.tar.gz"

  # Its parser counts its steps (common/grammar/xgrammar_steps.h).
  cp "$steps" "$work/$name/include/xgrammar/steps.h"
  sed -i -e '0,/^#include "/s//#include "xgrammar\/steps.h"\n&/' \
    -e 's/^  void Enqueue\(WithoutProcessing\)\?(const ParserState& state) {$/&\n    CountStep();/' "$work/$name/cpp/earley_parser.h"
  sed -i -e 's/^void EarleyParser::Scan\(AtomicToken\)\?(const ParserState& state, [a-z0-9_ ]*) {$/&\n  CountStep();/' \
    -e 's/^  for (const auto& \[ref_id, parent_state\] : parent_states_map) {$/&\n    CountStep();/' \
    -e 's/^ *\[&\](const auto& s) {$/&\n CountStep();/' "$work/$name/cpp/earley_parser.cc"
  if [[ $(cat "$work/$name"/cpp/earley_parser.* | grep -c 'CountStep();') -ne 7 ]]; then
    echo "build_xgrammar: the parser of $name is not the one whose steps are counted: compare the lines above with it" >&2
    exit 2
  fi

  echo "building $name (a minute of CPU, once)" >&2
  # Its own flags stop at warnings and optimise when linking; the flags that are set here come after them. What our programs are
  # hardened with (CMakeLists.txt), this library is too. Sanitized builds link this one library as well: what they look for is
  # in our code, and library and programs exchange no sanitized type.
  flags="-O2 -w -fno-lto -fstack-protector-strong -fstack-clash-protection -fvisibility-inlines-hidden"
  flags+=" --param=ggc-min-expand=500 --param=ggc-min-heapsize=1000000"
  flags+=" -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=3"
  [[ $(uname -m) != x86_64 ]] || flags+=" -fcf-protection"
  mkdir "$work/build"
  # Options on the command line would give way to those of its cmake/config.cmake, and this file comes before that one.
  echo 'set(XGRAMMAR_BUILD_PYTHON_BINDINGS OFF)' >"$work/build/config.cmake"
  # Six sources compiled together: 63 s of CPU instead of 103.
  cmake -S "$work/$name" -B "$work/build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_CXX_COMPILER=c++ \
    -DCMAKE_UNITY_BUILD=ON -DCMAKE_UNITY_BUILD_BATCH_SIZE=6 -DCMAKE_CXX_FLAGS="$flags" -DCMAKE_CXX_FLAGS_RELEASE=-DNDEBUG >&2
  ninja -C "$work/build" --quiet xgrammar >&2

  mkdir -p "$work/out/include" "$work/out/lib"
  cp -r "$work/$name/include/xgrammar" "$work/$name/3rdparty/dlpack/include/dlpack" "$work/out/include/"
  cp "$work/build/libxgrammar.a" "$work/out/lib/"
  cp "$work/$name/LICENSE" "$work/$name/NOTICE" "$work/out/"
  sed -n '/^ \*\/$/q; p' "$work/$name/3rdparty/picojson/picojson.h" >"$work/out/LICENSE.picojson"
  # The last step, so that an incomplete build is never taken for the library. Who comes second keeps the first one's.
  mv -T "$work/out" "$folder" 2>/dev/null || [[ -f $folder/lib/libxgrammar.a ]]
fi
echo "$folder"
