"""Where the units are, and what they say."""

import collections
import pathlib

ROOT = pathlib.Path(__file__).resolve().parents[2]
SYSTEMD = ROOT / "deploy" / "systemd"
# Role -> the unit's file and the example configuration of its first instance.
PARTS = {
    "router": (SYSTEMD / "baton-router.service", SYSTEMD / "config/router/router.toml"),
    "prefill": (SYSTEMD / "baton-prefill-worker@.service", SYSTEMD / "config/prefill/0.toml"),
    "decode": (SYSTEMD / "baton-decode-worker@.service", SYSTEMD / "config/decode/0.toml"),
}
# `baton serve`, which is no part of such a fleet: its unit and its example configuration.
SERVE = (SYSTEMD / "baton.service", SYSTEMD / "config/serve/serve.toml")
MODEL = ROOT / "tests/data/tiny/tiny-llama-f32.gguf"


def service(unit):
    """The unit's section [Service]: key -> its values in order."""
    values, section = collections.defaultdict(list), ""
    for line in unit.read_text().splitlines():
        if line.startswith("["):
            section = line
        elif "=" in line and section == "[Service]" and not line.startswith("#"):
            key, _, value = line.partition("=")
            values[key].append(value)
    return values


def only(unit, key):
    (value,) = service(unit)[key]
    return value
