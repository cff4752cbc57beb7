#!/usr/bin/env bash
# Packs the programs for x86-64 Linux without CUDA: a Debian package, and an archive that runs from any folder.
#   scripts/build_package.sh [--out FOLDER] [--release N] [BUILD]
# BUILD is the folder of a build whose programs are there; without it build/release is built. Writes into FOLDER, build/packages if
# none is given: baton_VERSION-N_amd64.deb for Debian 12, and baton-VERSION-linux-x86_64.tar.gz with the libraries that the programs
# need beside glibc, which must be 2.36 or newer. Prints the paths of both.
set -euo pipefail
cd "$(dirname "$0")/.."

out=build/packages
release=1
build=
while [[ $# -gt 0 ]]; do
  case $1 in
    --out) out=${2:?build_package: --out needs a folder} && shift 2 ;;
    --release) release=${2:?build_package: --release needs a number} && shift 2 ;;
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

if [[ -z $build ]]; then
  build=build/release
  scripts/install_deps.sh >&2
  [[ -f $build/build.ninja ]] || cmake --preset release >/dev/null
  NINJA_STATUS='[%f/%t, %es] ' ninja -C "$build" baton_reference baton-grammar-compiler >&2
fi
if [[ ! -f $build/CPackConfig.cmake || ! -f $build/reference/done ]]; then
  echo "build_package: $build has no man pages of built programs: ninja -C $build baton_reference baton-grammar-compiler" >&2
  exit 2
fi
mkdir -p "$out"
out=$(realpath "$out")
build=$(realpath "$build")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

export BATON_PACKAGE_RELEASE=$release  # for the changelog
cpack -G DEB --config "$build/CPackConfig.cmake" -B "$work/deb" -D CPACK_DEBIAN_PACKAGE_RELEASE="$release" \
  ${BATON_PACKAGE_COMPRESSION:+-D CPACK_DEBIAN_COMPRESSION_TYPE="$BATON_PACKAGE_COMPRESSION"} >"$work/log" 2>&1 ||
  { cat "$work/log" >&2 && exit 1; }
package=$(basename "$work"/deb/*.deb)
mv "$work/deb/$package" "$out/"

name=baton-$(sed -n 's/^set(CPACK_PACKAGE_VERSION "\(.*\)")$/\1/p' "$build/CPackConfig.cmake")-linux-x86_64
folder=$work/$name
mkdir -p "$folder"/{bin,lib,share/doc/baton/libraries}
for component in documents upstream services archive; do
  cmake --install "$build" --prefix "$folder" --component $component >/dev/null
done
# The units are for installed programs.
rm -r "$folder/lib/systemd" "$folder/lib/sysusers.d"
for program in baton baton-router baton-grammar-compiler baton-prefill-worker baton-decode-worker; do
  install -s "$build/bin/$program" "$folder/bin/"
done

# glibc and its loader are the machine's.
machines_own='/(ld-linux.*|libc|libm|libmvec|libdl|librt|libpthread|libresolv|libutil|libanl|libnsl)\.so'
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
printf '%s\n' "$out/$package" "$out/$name.tar.gz"
