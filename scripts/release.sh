#!/usr/bin/env bash
# Makes all files of a release from a clean clone, on Debian 12:
#   scripts/release.sh [--out FOLDER] [--cuda TOOLKIT | --cpu-only] [--allow-dirty] VERSION
#
# VERSION is that of CMakeLists.txt, such as 0.1.0. The files go to FOLDER, by default dist/VERSION, which must not be there or be empty:
#   baton_VERSION-1_amd64.deb                the Debian package, for the CPU
#   baton-VERSION-linux-x86_64.tar.gz        an archive that runs from any folder, for the CPU
#   baton-VERSION-linux-x86_64-cuda.tar.gz   the same with the CUDA backend; cuBLASLt is found on the machine, or done without
#   NAME-VERSION.oci.tar                     images for the CPU: baton, baton-router, baton-prefill-worker, baton-decode-worker, baton-front
#   NAME-VERSION-cuda.oci.tar                images with the CUDA backend and cuBLASLt: baton, baton-prefill-worker, baton-decode-worker
#   *.spdx.json                              the bill of materials of each of these files (SPDX 2.3)
#   SHA256SUMS                               for sha256sum --check
# docker, podman, kind, minikube and k3s load the images (deploy/README.md). One commit gives the same files again.
#
# --cuda: the CUDA Toolkit, 12.4 or newer; by default that of nvcc in PATH, or /usr/local/cuda.
# --cpu-only: leaves out all that has the CUDA backend.
# --allow-dirty: takes a tree with changes that are not committed, to try a release.
# Installs the Debian packages that building needs (scripts/install_deps.sh). Takes some minutes on 2 cores, and half an hour with CUDA.
set -euo pipefail
cd "$(dirname "$0")/.."

fail() {
  printf 'release: %s\n' "$*" >&2
  exit 2
}

version='' out='' cuda='' cpu_only='' allow_dirty=''
while [[ $# -gt 0 ]]; do
  case $1 in
    --out) out=${2:?release: --out needs a folder} && shift ;;
    --cuda) cuda=${2:?release: --cuda needs the folder of a CUDA Toolkit} && shift ;;
    --cpu-only) cpu_only=yes ;;
    --allow-dirty) allow_dirty=yes ;;
    --help) sed -n '2,/^set/{/^set/!s/^# \?//p}' "$0" && exit ;;
    -*) fail "unknown flag '$1'; the head of $0 has the flags" ;;
    *)
      [[ -z $version ]] || fail "one VERSION is enough, and there are '$version' and '$1'"
      version=$1
      ;;
  esac
  shift
done

# What would stop the release is looked for before anything is built.
declared=$(sed -n 's/.*project(baton.* VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)
number='(0|[1-9][0-9]*)'
[[ -n $version ]] || fail "name the version: $0 $declared"
[[ $version =~ ^$number\.$number\.$number$ ]] || fail "the version '$version' is not of the form X.Y.Z, such as $declared"
[[ $version == "$declared" ]] ||
  fail "the version is $version, and CMakeLists.txt has $declared in project(baton VERSION ...); change one of them"
[[ -z $cuda || -z $cpu_only ]] || fail "--cuda and --cpu-only exclude each other; give one of them"

changed=$(git status --porcelain) || fail "$PWD is no clone of the repository; a release is made from a commit"
[[ -z $changed || -n $allow_dirty ]] ||
  fail "these files differ from the commit, so nobody else could make this release; commit them, or remove them:"$'\n'"$changed"
out=${out:-dist/$version}
[[ ! -e $out || (-d $out && -z $(ls -A "$out")) ]] || fail "$out is there already; remove it, or name another folder with --out"

cpu_images=(baton router prefill-worker decode-worker front)
scripts/build_images.sh --check "${cpu_images[@]}" || fail "the images cannot be built on this machine; see the line above"
if [[ -z $cpu_only ]]; then
  if [[ -z $cuda ]]; then
    nvcc=$(command -v nvcc || true)
    cuda=${nvcc:+$(dirname "$(dirname "$(readlink -f "$nvcc")")")}
    cuda=${cuda:-/usr/local/cuda}
  fi
  scripts/cuda_toolkit.sh "$cuda" ||
    fail "name the folder of a CUDA Toolkit with --cuda, such as \$(scripts/fetch_cuda12.sh), or leave CUDA out with --cpu-only"
fi

# The same commit gives the same files.
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH LC_ALL=C.UTF-8 TZ=UTC
umask 022
# shellcheck disable=SC1091  # a file of its own, which is checked too
source scripts/parts.sh
mkdir -p "$(dirname "$out")"
work=$(mktemp -d "$out.XXXXXX")  # nobody takes half a release for one
trap 'rm -rf "$work"' EXIT

# make_files KIND TOOLKIT IMAGE...: builds and packs the programs, with the CUDA backend unless TOOLKIT is empty, and their images.
make_files() {
  local kind=$1 toolkit=$2 build
  shift 2
  part "build: $kind"
  build=$(scripts/build_release.sh ${toolkit:+--cuda "$toolkit"} baton_reference programs)
  part "packages: $kind"
  scripts/build_package.sh --out "$work" --bills "$work" ${toolkit:+--cuda "$toolkit"} "$build"
  part "images: $kind"
  scripts/build_images.sh --programs "$build/bin" --oci "$work" --bills "$work" ${toolkit:+--cuda "$toolkit"} "$@"
}
make_files CPU "" "${cpu_images[@]}"
[[ -n $cpu_only ]] || make_files CUDA "$cuda" baton prefill-worker decode-worker

part "checksums"
sums=$(cd "$work" && sha256sum -- *)
echo "$sums" >"$work/SHA256SUMS"
chmod 755 "$work"
[[ ! -d $out ]] || rmdir "$out"
mv "$work" "$out"
where_the_time_went
(cd "$out" && du -h -- *)
echo "$out: Baton $version${cpu_only:+, without CUDA}, commit $(git rev-parse --short HEAD)${changed:+ with changes that are not committed}"
