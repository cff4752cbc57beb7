"""Draws the sweep of `baton bench transfer --json`: rates over the size of messages and calls.

plot_transfer.py transfer.json transfer.png TITLE
"""

import json
import sys

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402

COLOURS = ["#a6dba0", "#5aae61", "#1b7837", "#00441b"]


def main() -> None:
    source, target, title = sys.argv[1:]
    with open(source, encoding="utf-8") as file:
        report = json.load(file)
    rows = report["sweep"]
    sizes = sorted({row["bytes"] for row in rows})
    places = [size / 2**20 for size in sizes]
    figure, axes = plt.subplots(figsize=(8, 4.5))
    socket = {row["bytes"]: row["socket_gb_s"] for row in rows}
    axes.plot(places, [socket[size] for size in sizes], "s--", color="#777777", label="bare socket, calls of this size")
    for colour, connections in zip(COLOURS, sorted({row["connections"] for row in rows})):
        push = {row["bytes"]: row["grpc_gb_s"] for row in rows if row["connections"] == connections}
        label = f"KV push, messages of this size, {connections} connection{'s' if connections > 1 else ''}"
        axes.plot(places, [push[size] for size in sizes], "o-", color=colour, label=label)
    for share, style, label in ((0.65, "-", "0.65 of the socket with 1 MiB calls"), (0.8, ":", "0.80 of it")):
        axes.axhline(share * report["socket_gb_s"], color="black", linewidth=0.9, linestyle=style, label=label)
    axes.axhline(report["protobuf_bytes_gb_s"], color="#d6604d", linewidth=0.9, label="protobuf bytes field of 1 MiB")
    axes.set_xscale("log", base=2)
    axes.set_xticks(places, [f"{place:g} MiB" if place >= 1 else f"{place * 1024:g} KiB" for place in places])
    axes.set_ylim(0, None)
    axes.set_ylabel("GB/s")
    axes.set_title(title, fontsize=10)
    axes.legend(fontsize=8, loc="lower right")
    figure.tight_layout()
    figure.savefig(target, dpi=110)


if __name__ == "__main__":
    main()
