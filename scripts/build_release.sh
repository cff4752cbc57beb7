#!/usr/bin/env bash
# Builds targets as they are released, and prints the folder of the build.
#   scripts/build_release.sh [--cuda TOOLKIT] TARGET...
#
# Without --cuda the programs compute on the CPU, and the build is build/release. With it they have the CUDA backend too, by the CUDA
# Toolkit in this folder (12.4 or newer), such as /usr/local/cuda or that of scripts/fetch_cuda12.sh; the build is
# build/cuda-release-N, where N is the toolkit's version. CMAKE_BUILD_PARALLEL_LEVEL in the environment limits the jobs.
set -euo pipefail
cd "$(dirname "$0")/.."

fail() {
  echo "build_release: $*" >&2
  exit 2
}

cuda=
if [[ ${1:-} == --cuda ]]; then
  cuda=${2:?build_release: --cuda needs the folder of a CUDA Toolkit}
  shift 2
fi
[[ $# -gt 0 && $1 != -* ]] || fail "name the targets to build, such as 'programs'; the head of $0 has the flags"

scripts/install_deps.sh >&2
if [[ -z $cuda ]]; then
  build=build/release
  [[ -f $build/build.ninja ]] || cmake --preset release >/dev/null
else
  build=build/cuda-release-$(scripts/cuda_toolkit.sh "$cuda" version)
  cmake --preset cuda -B "$build" -DCMAKE_CUDA_COMPILER="$cuda/bin/nvcc" >/dev/null
fi
NINJA_STATUS='[%f/%t, %es] ' cmake --build "$build" --target "$@" >&2
echo "$build"
