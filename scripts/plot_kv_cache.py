#!/usr/bin/env python3
"""Plots the time of a decode step with and without the KV cache.

Offline tool (needs matplotlib): baton-bench-kv-cache MODEL.gguf 512 2 32 > docs/kv_cache_steps.csv
                                 scripts/plot_kv_cache.py docs/kv_cache_steps.csv docs/kv_cache_steps.png
"""
import argparse
import csv

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("csv", help="what baton-bench-kv-cache printed")
    parser.add_argument("png", help="where the figure goes")
    args = parser.parse_args()

    with open(args.csv, newline="") as file:
        rows = list(csv.DictReader(file))
    tokens = [int(row["tokens"]) for row in rows]
    figure, axes = plt.subplots(figsize=(7, 4))
    for column, label in (("recomputed_ms", "without the cache: all tokens again"),
                          ("cached_ms", "with the cache: one token")):
        axes.plot(tokens, [float(row[column]) for row in rows], label=label)
    axes.set_xlabel("tokens in the sequence")
    axes.set_ylabel("time per step [ms]")
    axes.set_yscale("log")
    axes.grid(True, which="both", alpha=0.3)
    axes.legend()
    figure.tight_layout()
    figure.savefig(args.png, dpi=120)


if __name__ == "__main__":
    main()
