#!/usr/bin/env bash
# Installs the Debian 12 packages that are missing. Needs root or sudo only when something is missing.
#   scripts/install_deps.sh              installs what building and running needs
#   scripts/install_deps.sh --test       also installs what scripts/test.sh needs
#   scripts/install_deps.sh --thorough   also installs what scripts/test.sh --thorough needs
set -euo pipefail

packages=(
  git g++ cmake ninja-build pkg-config ca-certificates
  libgrpc++-dev libgrpc-dev protobuf-compiler protobuf-compiler-grpc libprotobuf-dev libabsl-dev
  libcli11-dev libpcre2-dev libutf8proc-dev libxxhash-dev nlohmann-json3-dev libboost1.81-dev libssl-dev libspdlog-dev libfmt-dev
  prometheus-cpp-dev libcpp-httplib-dev libtomlplusplus-dev libc-ares-dev libre2-dev zlib1g-dev libedit-dev
  python3 python3-pip dpkg-dev file
)
tests=(libgtest-dev libgmock-dev libbenchmark-dev libboost-context1.81-dev)  # the build configures the tests too
case "${1:-}" in
  --test | --thorough)
    packages+=("${tests[@]}" ccache lld openssl curl binutils python3-pytest python3-grpcio python3-protobuf python3-yaml)
    ;;&
  --thorough)
    packages+=(
      python3-jinja2
      clang-format clang-tidy shellcheck pyflakes3 haproxy nginx caddy systemd chromium chromium-driver python3-selenium
      debootstrap groff man-db mandoc zsh
      podman runc netavark catatonit iptables iproute2 valgrind
    )
    ;;
  "")
    packages+=("${tests[@]}")
    ;;
esac

missing=()
for package in "${packages[@]}"; do
  dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q '^install ok installed' ||
    missing+=("$package")
done
if [[ ${#missing[@]} -eq 0 ]]; then
  exit 0
fi

sudo=()
if [[ $EUID -ne 0 ]]; then
  command -v sudo >/dev/null || {
    echo "install_deps: missing packages, and neither root nor sudo here: apt-get install ${missing[*]}" >&2
    exit 2
  }
  sudo=(sudo)
fi
install() {
  "${sudo[@]}" apt-get update -qq &&
    "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "${missing[@]}" |
    awk '/^Get:/ { printf "\r  fetched %d", ++fetched; fflush() }
         /^Setting up/ { printf "\r  set up %d     ", ++done; fflush() }
         /^E:/ { print "\n" $0 }
         END { print "" }'
}

stop_proxies() {  # those that Debian has just started as services; tests start their own
  [[ -d /run/systemd/system ]] || return 0
  for package in nginx caddy haproxy; do
    [[ " ${missing[*]} " != *" $package "* ]] || "${sudo[@]}" systemctl disable --quiet --now "$package"
  done
}

echo "installing ${#missing[@]} packages: ${missing[*]}"
for attempt in 1 2 3; do
  install && stop_proxies && exit
  echo "install_deps: apt-get failed, attempt $attempt of 3" >&2
  sleep 10
done
exit 1
