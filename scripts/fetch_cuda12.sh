#!/usr/bin/env bash
# Prints a folder with what Baton needs of the CUDA Toolkit 12.4, laid out as NVIDIA does, to build for drivers from 550 on. Fetches
# it once into the cache folder (1.2 GB in, 0.7 GB kept, two minutes): ${BATON_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/baton}.
# It comes from Debian 13's packages, by the mirror that apt uses here and in a list of apt's own that is gone afterwards: nothing is
# installed, and no other package comes from there. NVIDIA's licence of the toolkit lies in the folder.
#   CUDACXX=$(scripts/fetch_cuda12.sh)/bin/nvcc scripts/gpu_bundle.sh
set -euo pipefail

readonly version=12.4
readonly packages=(nvidia-cuda-toolkit nvidia-cuda-dev libcudart12 libcublaslt12 libcu++-dev)
readonly keyring=/usr/share/keyrings/debian-archive-keyring.gpg
cache=$("$(dirname "$0")/cache_folder.sh")
# The folder is named after what is in it, so that a change of these lines fetches it anew.
folder=$cache/cuda-$version-$(sha256sum <"$0" | cut -c1-12)

if [[ ! -d $folder ]]; then
  # shellcheck disable=SC2016  # apt's own names
  mirror=$(apt-get indextargets --format '$(REPO_URI) $(ORIGIN) $(COMPONENT)' 'Created-By: Packages' 2>/dev/null |
    awk '$2 == "Debian" && $3 == "main" && $1 !~ /security/ { print $1; exit }' || true)
  if [[ -z $mirror || ! -r $keyring ]]; then
    echo "fetch_cuda12: no Debian mirror in apt's sources, or no $keyring; install the CUDA Toolkit $version from NVIDIA instead" >&2
    exit 2
  fi
  mkdir -p "$cache"
  work=$(mktemp -d -p "$cache")
  trap 'rm -rf "$work"' EXIT
  mkdir -p "$work"/{lists,archives}/partial "$work"/{packages,parts,out/bin,out/include,out/lib64,out/nvvm/bin}
  echo "deb [signed-by=$keyring] $mirror trixie main non-free" >"$work/sources.list"
  apt=(-q -o APT::Sandbox::User=root -o Acquire::Retries=3 -o Dir::Etc::sourcelist="$work/sources.list" -o Dir::Etc::sourceparts=-
       -o Dir::State::lists="$work/lists" -o Dir::State::status=/dev/null -o Dir::Cache="$work")
  echo "fetching the CUDA Toolkit $version (1.2 GB) with apt" >&2
  apt-get "${apt[@]}" update >&2
  (cd "$work/packages" && apt-get "${apt[@]}" download "${packages[@]}" >&2)
  echo "unpacking it" >&2
  for package in "$work"/packages/*.deb; do
    # All static libraries but the runtime's are left out: they are most of it, and Baton links none of them.
    dpkg --fsys-tarfile "$package" |
      tar -C "$work/parts" -x --wildcards --exclude='./usr/lib/*/lib[!c]*.a' --exclude='./usr/lib/*/libcu[!d]*.a'
  done
  parts=$work/parts/usr
  own=$parts/lib/nvidia-cuda-toolkit
  mv "$own/bin/nvcc" "$own/bin/crt" "$parts"/bin/{bin2c,cudafe++,cuobjdump,fatbinary,nvdisasm,nvlink,ptxas} "$work/out/bin/"
  mv "$own/bin/cicc" "$work/out/nvvm/bin/"
  mv "$own/libdevice" "$work/out/nvvm/"
  mv "$parts"/include/* "$work/out/include/"
  mv "$parts"/lib/x86_64-linux-gnu/libcud{art,adevrt}* "$parts"/lib/x86_64-linux-gnu/libcublasLt.so* "$work/out/lib64/"
  cp "$parts/share/doc/nvidia-cuda-toolkit/copyright" "$work/out/LICENSE"
  # As in NVIDIA's own packages, all paths are relative to the compiler.
  cat >"$work/out/bin/nvcc.profile" <<'PROFILE'
TOP                = $(_HERE_)/..
CICC_PATH          = $(TOP)/nvvm/bin
NVVMIR_LIBRARY_DIR = $(TOP)/nvvm/libdevice
PATH              += $(CICC_PATH):$(_HERE_):
INCLUDES          += "-I$(TOP)/include" $(_SPACE_)
LIBRARIES         =+ $(_SPACE_) "-L$(TOP)/lib64"
PROFILE
  "$work/out/bin/nvcc" --version | grep -q "release $version,"
  rm -rf "$folder"
  mv "$work/out" "$folder"
fi
echo "$folder"
