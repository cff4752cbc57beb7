"""Draws the cost of a request over the number of workers, from the report of bench/router_cost.py.

plot_router.py router.json router.png
"""

import json
import sys

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402


def main() -> None:
    source, target = sys.argv[1:]
    with open(source, encoding="utf-8") as file:
        rows = json.load(file)["workers"]
    workers = [row["workers"] for row in rows]
    figure, axes = plt.subplots(figsize=(7, 4))
    axes.plot(workers, [row["cpu_us_per_request"] / 1e3 for row in rows], "o-", color="#1b7837",
              label="CPU time of a request, ms")
    axes.plot(workers, [row["idle_cpu_share"] for row in rows], "s--", color="#777777",
              label="share of a core without requests")
    axes.set_xscale("log")
    axes.set_xticks(workers, [str(count) for count in workers])
    axes.set_xlabel("workers")
    axes.set_ylim(0, None)
    axes.legend(fontsize=8)
    figure.tight_layout()
    figure.savefig(target, dpi=110)


if __name__ == "__main__":
    main()
