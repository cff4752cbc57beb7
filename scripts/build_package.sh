#!/usr/bin/env bash
# Packs the programs for x86-64 Linux: a Debian package, and an archive that runs from any folder.
#   scripts/build_package.sh [--out FOLDER] [--release N] [--bills FOLDER] [--cuda TOOLKIT] [BUILD]
# BUILD is the folder of a build whose programs are there; without it scripts/build_release.sh makes one. Writes into FOLDER,
# build/packages if none is given: baton_VERSION-N_amd64.deb for Debian 12, and baton-VERSION-linux-x86_64.tar.gz with the libraries
# that the programs need beside glibc, which must be 2.36 or newer. Prints the paths of both.
#
# --cuda: the programs have the CUDA backend, by the CUDA Toolkit in this folder. Only the archive is made, and its name ends in
#   -cuda.tar.gz. It does not contain cuBLASLt, which is ten times as large as the rest: the programs find it on the machine (a CUDA
#   Toolkit, or Python's package nvidia-cublas) or do without it.
# --bills: where the bill of materials of each file goes, FILE.spdx.json (SPDX 2.3); without it none is written.
set -euo pipefail
cd "$(dirname "$0")/.."

out=build/packages
release=1
build='' bills='' cuda=''
while [[ $# -gt 0 ]]; do
  case $1 in
    --out) out=${2:?build_package: --out needs a folder} && shift 2 ;;
    --release) release=${2:?build_package: --release needs a number} && shift 2 ;;
    --bills) bills=${2:?build_package: --bills needs a folder} && shift 2 ;;
    --cuda) cuda=${2:?build_package: --cuda needs the folder of a CUDA Toolkit} && shift 2 ;;
    -*) echo "build_package: unknown flag '$1'; see the head of $0" >&2 && exit 2 ;;
    *) build=$1 && shift ;;
  esac
done
if [[ ! $release =~ ^[1-9][0-9]*$ ]]; then
  echo "build_package: --release '$release' is not a number from 1; it tells packages of one version apart" >&2
  exit 2
fi
# So that packing the same commit again gives the same files.
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || date +%s)}
export SOURCE_DATE_EPOCH
umask 022

[[ -n $build ]] || build=$(scripts/build_release.sh ${cuda:+--cuda "$cuda"} baton_reference baton-grammar-compiler)
if [[ ! -f $build/CPackConfig.cmake || ! -f $build/reference/done ]]; then
  echo "build_package: $build has no man pages of built programs: ninja -C $build baton_reference baton-grammar-compiler" >&2
  exit 2
fi
mkdir -p "$out"
out=$(realpath "$out")
build=$(realpath "$build")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

version=$(sed -n 's/^set(CPACK_PACKAGE_VERSION "\(.*\)")$/\1/p' "$build/CPackConfig.cmake")
programs=(baton baton-router baton-grammar-compiler baton-prefill-worker baton-decode-worker)
programs=("${programs[@]/#/$build/bin/}")
toolkit=
[[ -z $cuda ]] || toolkit=$(scripts/cuda_toolkit.sh "$cuda" version)

# write_bill FILE PURPOSE: writes the bill of materials of the file that was made, if bills are asked for.
write_bill() {
  [[ -n $bills ]] || return 0
  mkdir -p "$bills"
  scripts/bill_of_materials.py "${programs[@]}" --purpose "$2" --sbom "$bills/$(basename "$1").spdx.json" --name "$(basename "$1")" \
    --version "$version" --xgrammar "$(scripts/build_xgrammar.sh)" ${toolkit:+--cuda "$toolkit"}
}

if [[ -z $cuda ]]; then
  export BATON_PACKAGE_RELEASE=$release  # of the changelog
  cpack -G DEB --config "$build/CPackConfig.cmake" -B "$work/deb" -D CPACK_DEBIAN_PACKAGE_RELEASE="$release" \
    ${BATON_PACKAGE_COMPRESSION:+-D CPACK_DEBIAN_COMPRESSION_TYPE="$BATON_PACKAGE_COMPRESSION"} >"$work/log" 2>&1 ||
    { cat "$work/log" >&2 && exit 1; }
  package=$out/$(basename "$work"/deb/*.deb)
  mv "$work"/deb/*.deb "$package"
  write_bill "$package" INSTALL
  echo "$package"
fi

name=baton-$version-linux-x86_64${cuda:+-cuda}
folder=$work/$name
mkdir -p "$folder"/{bin,lib,share/doc/baton/libraries}
for component in documents upstream services archive; do
  cmake --install "$build" --prefix "$folder" --component $component >/dev/null
done
# The units are for installed programs.
rm -r "$folder/lib/systemd" "$folder/lib/sysusers.d"
for program in "${programs[@]}"; do
  install -s "$program" "$folder/bin/"
done
[[ -z $cuda ]] || install -m 644 "$(scripts/cuda_toolkit.sh "$cuda" licence)" "$folder/share/doc/baton/compiled-in/cuda-runtime"

# glibc and its loader are the machine's, and so are the libraries of NVIDIA's driver.
machines_own='/(ld-linux.*|libcuda|libnvidia[^/]*|libc|libm|libmvec|libdl|librt|libpthread|libresolv|libutil|libanl|libnsl)\.so'
mapfile -t libraries < <(ldd "$folder"/bin/* | awk '$2 == "=>" && $3 ~ /^\// { print $3 }' | sort -u | grep -Ev "$machines_own")
install -m 644 "${libraries[@]}" "$folder/lib/"
# With the licences of their packages. dpkg knows a library below /lib or below /usr/lib, which are the same.
mapfile -t owners < <(dpkg -S "${libraries[@]}" "${libraries[@]/#//usr}" "${libraries[@]#/usr}" 2>/dev/null | sort -u)
if [[ ${#owners[@]} -ne ${#libraries[@]} ]]; then
  echo "build_package: ${#libraries[@]} libraries, but ${#owners[@]} of Debian packages, so that a licence is not known" >&2
  exit 1
fi
for owner in "${owners[@]%%:*}"; do
  cp -L "/usr/share/doc/$owner/copyright" "$folder/share/doc/baton/libraries/$owner"
done
tar -C "$work" --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" -cf - "$name" |
  gzip -n ${BATON_PACKAGE_COMPRESSION:+-1} >"$out/$name.tar.gz"
write_bill "$out/$name.tar.gz" ARCHIVE
echo "$out/$name.tar.gz"
