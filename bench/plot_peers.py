"""Draws what compare_peers.py measured: how often the best peer's speed ours is, with the goals.

Runs in the environment that compare_peers.py makes:    plot_peers.py cpu_peers.json cpu_peers.png
"""

import json
import sys

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402

COLOURS = {"aim": "#1b7837", "yes": "#7fbf7b", "no": "#d6604d"}


def main() -> None:
    source, target = sys.argv[1:]
    with open(source, encoding="utf-8") as file:
        report = json.load(file)
    rows = [row for row in report["rows"] if row["ratio"] is not None]
    figure, axes = plt.subplots(figsize=(10, 1.6 + 0.34 * len(rows)))
    for place, row in enumerate(rows):
        axes.barh(place, row["ratio"], color=COLOURS[row["met"]], height=0.7)
        axes.plot([row["at_least"]] * 2, [place - 0.42, place + 0.42], color="black", linewidth=2)
        axes.plot([row["aim"]] * 2, [place - 0.42, place + 0.42], color="black", linewidth=2, linestyle=":")
        axes.text(max(row["ratio"], row["aim"]) * 1.06, place, f"{row['ratio']:.2f}", va="center", fontsize=9)
    axes.set_yticks(range(len(rows)), [row["what"] for row in rows], fontsize=9)
    axes.set_ylim(len(rows) - 0.3, -0.7)
    axes.set_xscale("log")
    ticks = [0.25, 0.5, 1, 2, 5, 10]
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.set_xticks([], minor=True)
    axes.set_xlim(0.2, max([16, *(row["ratio"] * 1.5 for row in rows)]))
    axes.set_xlabel("Baton's tokens/s over the best peer's, or its share of the machine's limit")
    axes.set_title(f"{report['cpu']}, {len(report['cpus'])} cores, {report['date']}", fontsize=10)
    axes.axvline(1, color="gray", linewidth=0.8, zorder=0)
    axes.plot([], [], color="black", linewidth=2, label="at least")
    axes.plot([], [], color="black", linewidth=2, linestyle=":", label="aim")
    axes.legend(loc="lower right", fontsize=9)
    figure.tight_layout()
    figure.savefig(target, dpi=110)


if __name__ == "__main__":
    main()
