#!/usr/bin/env bash
# Builds Baton's images with podman, buildah or docker, on Debian 12:
#   scripts/build_images.sh [--programs FOLDER] [--cuda TOOLKIT] [--tag TAG] [--bills FOLDER] [--oci FOLDER] [--check] [IMAGE...]
#
# IMAGE: baton (`baton serve` with all that it starts), router, prefill-worker, decode-worker, which are built by default, or front.
# No registry is asked: an image has the programs, the libraries of this machine that they load, the certificates of authorities, and a
# user; no shell and no package manager. Only the front, this machine's HAProxy with deploy/haproxy/start.sh, has bash and what the
# script calls.
#
# --programs: a folder with the programs, such as build/release/bin; without, scripts/build_release.sh builds them first.
# --cuda: the programs have the CUDA backend, by the toolkit in this folder, such as /usr/local/cuda or that of
#   scripts/fetch_cuda12.sh. The images of workers and `baton` get its cuBLASLt; the driver's libraries come from the node. The default
#   tag ends in -cuda.
# --bills: where an image's list of packages goes, NAME-TAG.spdx.json (SPDX 2.3); build/images by default.
# --oci: a folder that gets each image as an archive too, NAME-TAG.oci.tar, which docker, podman, kind, minikube and k3s load.
# --check: checks that the images can be built on this machine, and builds none.
set -euo pipefail
cd "$(dirname "$0")/.."

fail() {
  echo "build_images: $*" >&2
  exit 2
}

version=$(sed -n 's/.*project(baton.* VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)
programs='' cuda='' tag='' bills=build/images oci='' check=''
while [[ ${1:-} == --* ]]; do
  if [[ $1 == --check ]]; then
    check=yes
    shift
    continue
  fi
  [[ $1 =~ ^--(programs|cuda|tag|bills|oci)$ ]] || fail "$1 is no flag of this script; its head has them"
  [[ -n ${2:-} ]] || fail "$1 needs a value"
  declare "${1#--}=$2"
  shift 2
done
tag=${tag:-$version${cuda:+-cuda}}
images=("$@")
[[ $# -gt 0 ]] || images=(baton router prefill-worker decode-worker)

builder=
for candidate in podman buildah docker; do
  if command -v "$candidate" >/dev/null && "$candidate" info >/dev/null 2>&1; then
    builder=$candidate
    break
  fi
done
[[ -n $builder ]] || fail "neither podman nor buildah nor docker runs here: apt-get install --no-install-recommends podman runc"

servers="baton-router baton-grammar-compiler baton-prefill-worker baton-decode-worker"
declare -A contents=([baton]="baton $servers" [router]="baton-router baton-grammar-compiler" [prefill-worker]=baton-prefill-worker
  [decode-worker]=baton-decode-worker [front]="haproxy bash env cat dirname sha256sum sleep")
declare -A titles=([baton]="Baton's server of one machine" [router]="Baton's router" [prefill-worker]="Baton's prefill worker"
  [decode-worker]="Baton's decode worker" [front]="HAProxy before Baton's routers")
declare -A licences=([front]="GPL-2.0-or-later AND Apache-2.0")  # licence of the main program; the bill of materials lists its libraries'

# system_program NAME: prints the path of this machine's program.
system_program() {
  PATH=/usr/sbin:/usr/bin command -v "$1" || fail "$1 is missing: apt-get install $1"
}
for image in "${images[@]}"; do
  [[ -v "contents[$image]" ]] || fail "there is no image $image: baton, router, prefill-worker, decode-worker, front"
  [[ $image != front ]] || for program in ${contents[front]}; do system_program "$program" >/dev/null; done
done
cuda_files=()  # what images with the CUDA backend get besides the programs
if [[ -n $cuda ]]; then
  blas=$(scripts/cuda_toolkit.sh "$cuda" cublaslt)
  licence=$(scripts/cuda_toolkit.sh "$cuda" licence)
  cuda_files=(--library "$blas" --cuda-licence "$licence" --cuda "$(scripts/cuda_toolkit.sh "$cuda" version)")
fi
[[ -z $check ]] || exit 0

if [[ -z $programs && ${images[*]} != front ]]; then
  programs=$(scripts/build_release.sh ${cuda:+--cuda "$cuda"} programs)/bin
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$bills" ${oci:+"$oci"}
[[ ${images[*]} == front ]] || xgrammar=$(scripts/build_xgrammar.sh)
revision=$(git rev-parse HEAD 2>/dev/null || echo unknown)
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || date +%s)}
export SOURCE_DATE_EPOCH
reproducible=(--timestamp "$SOURCE_DATE_EPOCH")
[[ $builder != docker ]] || reproducible=()

# save NAME FILE: writes the image of that name as an archive.
save() {
  case $builder in
    podman) podman save --quiet --format oci-dir --output "$work/layout" "$1" ;;
    buildah) buildah push --quiet "$1" "oci:$work/layout:$1" ;;
    docker) mkdir "$work/layout" && docker save "$1" | tar -C "$work/layout" -xf - ;;
  esac
  scripts/oci_archive.py "$work/layout" "docker.io/library/$1" "$2"
  rm -r "$work/layout"
}

for image in "${images[@]}"; do
  name=baton-$image
  [[ $image != baton ]] || name=baton
  files=() more=()
  for program in ${contents[$image]}; do
    if [[ $image == front ]]; then
      files+=("$(system_program "$program")")
    else
      [[ -x $programs/$program ]] || fail "$programs has no program $program"
      files+=("$programs/$program")
    fi
  done
  [[ $image != front ]] || more=(--folder deploy/haproxy:usr/local/share/baton/haproxy)
  [[ $image != *-worker && $image != baton ]] || more=("${cuda_files[@]}")
  [[ $image == front ]] || more+=(--xgrammar "$xgrammar")
  scripts/image_tree.py "${files[@]}" --out "$work/$image" --sbom "$bills/$name-$tag.spdx.json" \
    --name "$name" --version "$tag" "${more[@]}"
  "$builder" build "${reproducible[@]}" --quiet --file deploy/Containerfile --target "$image" --tag "$name:$tag" \
    --label "org.opencontainers.image.title=${titles[$image]}" \
    --label "org.opencontainers.image.version=$tag" \
    --label "org.opencontainers.image.revision=$revision" \
    --label "org.opencontainers.image.licenses=${licences[$image]:-Apache-2.0}" \
    --label "org.opencontainers.image.created=$(date -u -d "@$SOURCE_DATE_EPOCH" +%Y-%m-%dT%H:%M:%SZ)" \
    "$work" >/dev/null
  [[ -z $oci ]] || save "$name:$tag" "$oci/$name-$tag.oci.tar"
  printf '%s: %d MB of files, %s\n' "$name:$tag" $(($(du -sk "$work/$image" | cut -f1) / 1000)) "$bills/$name-$tag.spdx.json"
done
