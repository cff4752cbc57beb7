#!/usr/bin/env bash
# Serves requests of a trace on prefill and decode workers that are killed, restarted or stopped all the time, and compares
# every token with an undisturbed run:
#   scripts/chaos.sh [--requests 1000] [--how kill|restart|stop|rolling|router] [--every 2] [--stopped 5] [--seed 1]
#                    [--prefill 3] [--decode 3] [--routers 1] [--model FILE --vocabulary TOKENS]
# tests/integration/disturb.py describes --how. The long form is --requests 10000. Builds what is missing first. Prints a JSON
# report; the exit code is 1 if anything was lost.
set -euo pipefail
cd "$(dirname "$0")/.."
exec scripts/with_servers.sh tests/integration/chaos.py "$@"
