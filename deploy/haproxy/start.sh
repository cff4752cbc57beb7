#!/usr/bin/env bash
# Runs the front before a router of this machine, or before several elsewhere, in the foreground until SIGTERM; SIGUSR1 lets what
# runs end first; SIGUSR2 makes it read renewed files:
#   deploy/haproxy/start.sh ADDRESS CERT CA SOCKET [CRL]
#     ADDRESS   where clients connect, such as :443 or 127.0.0.1:8443
#     CERT      certificate of the role front, PEM in a file *.crt with its key beside it in *.key
#     CA        authorities of the clients' certificates (PEM); clients may also come without one
#     SOCKET    what --front-socket of the router names; --front-uid is the user this runs as. Or NAME:PORT, under which DNS has the
#               addresses of at most 16 routers with certificates; it is asked every 2 s
#     CRL       a revocation list of each of these authorities (PEM); clients that they name are refused, and all clients with a
#               certificate once a list is outdated, so renew it in time
# Variables: BATON_FRONT_SILENCE (100s), after which a stream without a word of the router ends; BATON_FRONT_PATIENCE (5s) with
# a client that is silent in the handshake or in its message, or takes nothing of its answer; BATON_FRONT_HANDSHAKE (5s), until a
# connection's first headers and from a stream's headers to its message; BATON_FRONT_CONNECTIONS_OF_PEER (256),
# BATON_FRONT_CONNECTIONS_PER_10S (500), BATON_FRONT_REQUESTS_PER_10S (2000) and BATON_FRONT_REQUESTS_PER_S (500), the limits of
# one client's address.
# HTTP too, where BATON_FRONT_HTTP is given: the address where its clients connect. BATON_FRONT_HTTP_ROUTER is then what
# --http-listen of the router names, whose certificate must have the name BATON_FRONT_HTTP_NAME (localhost); the router must have
# --tls-cert and the others, since it knows this front by its certificate.
# For routers elsewhere, whose HTTP has the same name and another port: BATON_FRONT_ROUTER_CA (CA) are the authorities of their
# certificates, in which BATON_FRONT_ROUTER_NAME (baton.internal) stands, and BATON_FRONT_DNS is the server that is asked for them,
# host:port, instead of those of /etc/resolv.conf.
# BATON_FRONT_HEALTH is where /live and /ready are answered in plain text. BATON_FRONT_RENEWAL, such as 30s, is how often the
# certificates and lists are looked at and, if they have changed, read anew, as by SIGUSR2.
set -euo pipefail

fail() {
  echo "front: $1" >&2
  exit 2
}

[[ $# -eq 4 || $# -eq 5 ]] || fail "give ADDRESS CERT CA SOCKET and perhaps CRL; the head of $0 says what they are"
command -v haproxy >/dev/null || fail "haproxy is missing; install it (Debian's package has that name)"
[[ "$2" == *.crt ]] || fail "$2: the certificate's file must end in .crt, and its key be beside it in .key"
for file in "$2" "${2%.crt}.key" "$3" "${@:5}"; do
  [[ -r "$file" ]] || fail "$file cannot be read; \`baton certs init\` and \`baton certs issue front\` make such files"
done
[[ -z "${BATON_FRONT_HTTP:-}" || -n "${BATON_FRONT_HTTP_ROUTER:-}" ]] ||
  fail "BATON_FRONT_HTTP is given and BATON_FRONT_HTTP_ROUTER is not; set it to the router's --http-listen"
[[ -z "${BATON_FRONT_ROUTER_CA:-}" || -r "$BATON_FRONT_ROUTER_CA" ]] || fail "$BATON_FRONT_ROUTER_CA cannot be read"
[[ "${5:-}" != *[[:space:]]* ]] || fail "$5: HAProxy would take the blank in the list's path for its end; rename it"

export BATON_FRONT_LISTEN="$1" BATON_FRONT_CERT="$2" BATON_FRONT_CA="$3" BATON_FRONT_ROUTER_CA="${BATON_FRONT_ROUTER_CA:-$3}"
if [[ "$4" == *:* && "$4" != */* ]]; then
  export BATON_FRONT_ROUTERS="$4"
else
  export BATON_FRONT_SOCKET="$4"
fi
export BATON_FRONT_REVOCATION="${5:+crl-file $5}"
command=(haproxy -W -db -f "$(dirname "${BASH_SOURCE[0]}")/front.cfg")
[[ -n "${BATON_FRONT_RENEWAL:-}" ]] || exec "${command[@]}"

# HAProxy waits for all its children before it ends, so the process that watches the files must not be one of them.
"${command[@]}" &
front=$!
for signal in TERM INT USR1 USR2; do
  # shellcheck disable=SC2064
  trap "kill -s $signal $front" "$signal"
done
files=("$2" "${2%.crt}.key" "$3" "$BATON_FRONT_ROUTER_CA" "${@:5}")
state() {  # a digest that changes with the files
  cat "${files[@]}" 2>/dev/null | sha256sum
}
watch() {
  local now read_state
  read_state=$(state)
  while sleep "$BATON_FRONT_RENEWAL" && kill -0 "$front" 2>/dev/null; do
    now=$(state)
    [[ "$now" == "$read_state" ]] || kill -s USR2 "$front"
    read_state=$now
  done
}
watch &
watcher=$!
while true; do
  status=0
  wait "$front" || status=$?
  kill -0 "$front" 2>/dev/null || break  # otherwise a signal, which was passed on, ended the wait
done
kill "$watcher" 2>/dev/null || true
exit "$status"
