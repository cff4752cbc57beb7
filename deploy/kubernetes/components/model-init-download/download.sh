#!/bin/sh
# Fetches the model into the pod's own volume before the server starts. A file that is there already, and right, is kept: a
# container that is started again finds it. What came before a break is not fetched again.
set -eu
right() {
  echo "$SHA256  $1" | sha256sum -c >/dev/null 2>&1
}
if right /models/model.gguf; then
  exit 0
fi
curl --fail --silent --show-error --location --proto =https --retry 10 --retry-delay 5 --retry-connrefused --speed-time 60 \
  --speed-limit 1 --continue-at - --output /models/model.part "$URL"
if ! right /models/model.part; then
  echo "$URL: the SHA-256 is $(sha256sum /models/model.part | cut -c 1-64), not $SHA256; mend model.env" >&2
  rm -f /models/model.part
  exit 1
fi
mv /models/model.part /models/model.gguf
