#!/usr/bin/env bash
# Prints the folder of a fresh Debian 12 with systemd, whose cache has what a package needs to be installed without a network.
#   fresh_debian.sh PACKAGE.deb      as root
# Made once with debootstrap (a minute) in ${BATON_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/baton}. Exits with 77, and says why, if
# that cannot be.
set -euo pipefail
package=$1
mirror=${BATON_DEBIAN_MIRROR:-http://deb.debian.org/debian}

cannot() {
  echo "$1" >&2
  exit 77
}

[[ $EUID -eq 0 ]] || cannot "only root may make a Debian of its own"
PATH=$PATH:/usr/sbin
command -v debootstrap >/dev/null || cannot "no debootstrap here: scripts/install_deps.sh --thorough installs it"
cache=${BATON_CACHE:-${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/baton}
folder=$cache/debian-12-$(sha256sum "$0" | cut -c1-12)

mkdir -p "$cache"
exec 9>"$cache/debian-12.lock"
flock 9
if [[ ! -d $folder ]]; then
  rm -rf "$folder.new"
  debootstrap --variant=minbase --include=systemd bookworm "$folder.new" "$mirror" >"$cache/debian-12.log" 2>&1 ||
    cannot "debootstrap failed: $(tail -n 1 "$cache/debian-12.log")"
  mv "$folder.new" "$folder"
fi

# Downloads only, so it stays fresh.
mkdir -p "$folder/var/cache/apt/packages"
cp "$package" "$folder/var/cache/apt/packages/package.deb"
download() {
  chroot "$folder" apt-get install -q -y --no-install-recommends --download-only /var/cache/apt/packages/package.deb
}
download >"$cache/debian-12.log" 2>&1 ||
  { chroot "$folder" apt-get update -q && download; } >"$cache/debian-12.log" 2>&1 ||
  cannot "apt cannot fetch what the package needs: $(tail -n 1 "$cache/debian-12.log")"
rm -r "$folder/var/cache/apt/packages"
echo "$folder"
