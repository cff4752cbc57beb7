#!/usr/bin/env bash
# Builds the images of the router, the workers and the front with podman, buildah or docker, on Debian 12:
#   scripts/build_images.sh [--programs FOLDER] [--cuda TOOLKIT] [--tag TAG] [--bills FOLDER] [IMAGE...]
#
# IMAGE: router, prefill-worker, decode-worker, which are built by default, or front. No registry is asked: an image has the
# programs, the libraries of this machine that they load, the certificates of authorities, and a user; no shell and no package
# manager. Only the front, this machine's HAProxy with deploy/haproxy/start.sh, has bash and what the script calls.
#
# --programs: a folder with the programs, such as build/release/bin; without, it is built first.
# --cuda: the programs have the CUDA backend, by the toolkit in this folder, such as /usr/local/cuda or that of
#   scripts/fetch_cuda12.sh. The workers' images get its cuBLASLt; the driver's libraries come from the node. The default tag ends
#   in -cuda.
# --bills: where an image's list of packages goes, baton-IMAGE-TAG.spdx.json (SPDX 2.3); build/images by default.
set -euo pipefail
cd "$(dirname "$0")/.."

fail() {
  echo "build_images: $*" >&2
  exit 2
}

version=$(sed -n 's/.*project(baton.* VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)
programs='' cuda='' tag='' bills=build/images
while [[ ${1:-} == --* ]]; do
  [[ $1 =~ ^--(programs|cuda|tag|bills)$ ]] || fail "$1 is no flag of this script; its head has them"
  [[ -n ${2:-} ]] || fail "$1 needs a value"
  declare "${1#--}=$2"
  shift 2
done
tag=${tag:-$version${cuda:+-cuda}}
images=("$@")
[[ $# -gt 0 ]] || images=(router prefill-worker decode-worker)

builder=
for candidate in podman buildah docker; do
  if command -v "$candidate" >/dev/null && "$candidate" info >/dev/null 2>&1; then
    builder=$candidate
    break
  fi
done
[[ -n $builder ]] || fail "neither podman nor buildah nor docker runs here: apt-get install --no-install-recommends podman runc"

if [[ -z $programs && ${images[*]} != front ]]; then
  if [[ -z $cuda ]]; then
    build=build/release
    [[ -f $build/build.ninja ]] || cmake --preset release >/dev/null
  else
    nvcc=$cuda/bin/nvcc
    [[ -x $nvcc ]] || fail "no $nvcc: --cuda takes the folder of a CUDA Toolkit"
    build=build/cuda-images-$("$nvcc" --version | sed -n 's/.*release \([0-9.]*\),.*/\1/p')
    cmake --preset cuda -B "$build" -DCMAKE_CUDA_COMPILER="$nvcc" >/dev/null
  fi
  ninja -C "$build" baton-router baton-prefill-worker baton-decode-worker
  programs=$build/bin
fi

declare -A contents=([router]="baton-router baton-grammar-compiler" [prefill-worker]=baton-prefill-worker
  [decode-worker]=baton-decode-worker [front]="haproxy bash env cat dirname sha256sum sleep")
declare -A titles=([router]="Baton's router" [prefill-worker]="Baton's prefill worker" [decode-worker]="Baton's decode worker"
  [front]="HAProxy before Baton's routers")
declare -A licences=([front]="GPL-2.0-or-later AND Apache-2.0")  # licence of the main program; the bill of materials lists its libraries'

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$bills"
[[ ${images[*]} == front ]] || xgrammar=$(scripts/build_xgrammar.sh)
revision=$(git rev-parse HEAD 2>/dev/null || echo unknown)
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || date +%s)}
export SOURCE_DATE_EPOCH
reproducible=(--timestamp "$SOURCE_DATE_EPOCH")
[[ $builder != docker ]] || reproducible=()

for image in "${images[@]}"; do
  [[ -v "contents[$image]" ]] || fail "there is no image $image: router, prefill-worker, decode-worker, front"
  files=() more=()
  for program in ${contents[$image]}; do
    if [[ $image == front ]]; then
      files+=("$(PATH=/usr/sbin:/usr/bin command -v "$program")") || fail "$program is missing: apt-get install $program"
    else
      [[ -x $programs/$program ]] || fail "$programs has no program $program"
      files+=("$programs/$program")
    fi
  done
  [[ $image != front ]] || more=(--folder deploy/haproxy:usr/local/share/baton/haproxy)
  if [[ -n $cuda && $image == *-worker ]]; then
    blas=$(find -L "$cuda" -name 'libcublasLt.so.[0-9]*' -not -path '*/stubs/*' | grep -m1 -E '\.so\.[0-9]+$') ||
      fail "no libcublasLt.so in $cuda"
    more=(--library "$blas")
  fi
  [[ $image == front ]] || more+=(--xgrammar "$xgrammar")
  scripts/image_tree.py "${files[@]}" --out "$work/$image" --sbom "$bills/baton-$image-$tag.spdx.json" \
    --name "baton-$image" --version "$tag" "${more[@]}"
  name=baton-$image:$tag
  "$builder" build "${reproducible[@]}" --quiet --file deploy/Containerfile --target "$image" --tag "$name" \
    --label "org.opencontainers.image.title=${titles[$image]}" \
    --label "org.opencontainers.image.version=$tag" \
    --label "org.opencontainers.image.revision=$revision" \
    --label "org.opencontainers.image.licenses=${licences[$image]:-Apache-2.0}" \
    --label "org.opencontainers.image.created=$(date -u -d "@$SOURCE_DATE_EPOCH" +%Y-%m-%dT%H:%M:%SZ)" \
    "$work" >/dev/null
  printf '%s: %d MB of files, %s\n' "$name" $(($(du -sk "$work/$image" | cut -f1) / 1000)) "$bills/baton-$image-$tag.spdx.json"
done
