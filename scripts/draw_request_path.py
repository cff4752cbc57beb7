#!/usr/bin/env python3
"""Draws the way of a request: scripts/draw_request_path.py writes docs/request_path.svg.

The same source gives the same bytes. The picture has its own background, light or dark as the reader prefers, so that it is
readable on any page.
"""
import pathlib
from xml.sax.saxutils import escape

SVG = pathlib.Path(__file__).resolve().parent.parent / "docs" / "request_path.svg"
WIDTH, HEIGHT = 880, 420

STYLE = """
  .page { fill: #ffffff; stroke: #d0d7de; }
  .box { fill: #eef4fb; stroke: #4a7ebb; }
  .title { fill: #1f2328; font: 600 16px sans-serif; }
  .text { fill: #424a53; font: 13px sans-serif; }
  .line { fill: none; stroke: #57606a; stroke-width: 1.5; }
  .head { fill: #57606a; }
  .push { fill: none; stroke: #bc4c00; stroke-width: 5; }
  .pushhead { fill: #bc4c00; }
  .badge { fill: #4a7ebb; }
  .number { fill: #ffffff; font: 600 12px sans-serif; text-anchor: middle; }
  @media (prefers-color-scheme: dark) {
    .page { fill: #0d1117; stroke: #30363d; }
    .box { fill: #172536; stroke: #5b93d3; }
    .title { fill: #e6edf3; }
    .text { fill: #b1bac4; }
    .line { stroke: #8b949e; }
    .head { fill: #8b949e; }
    .push { stroke: #f0883e; }
    .pushhead { fill: #f0883e; }
  }
"""


def box(x, y, width, height, title, lines):
    """A rectangle with centred text."""
    middle = x + width / 2
    first = y + height / 2 - 9 * len(lines) + 5
    parts = [f'<rect class="box" x="{x}" y="{y}" width="{width}" height="{height}" rx="8"/>',
             f'<text class="title" x="{middle:g}" y="{first:g}" text-anchor="middle">{escape(title)}</text>']
    for i, line in enumerate(lines):
        parts.append(f'<text class="text" x="{middle:g}" y="{first + 20 + 18 * i:g}" text-anchor="middle">{escape(line)}</text>')
    return parts


def arrow(points, name="line"):
    """A line along `points` with a head at its end."""
    head = "pushhead" if name == "push" else "head"
    path = " ".join(f"{x},{y}" for x, y in points)
    return [f'<polyline class="{name}" points="{path}" marker-end="url(#{head})"/>']


def label(x, y, number, *lines):
    """A numbered step with its text; (x, y) is the middle of its badge."""
    parts = [f'<circle class="badge" cx="{x}" cy="{y}" r="10"/>',
             f'<text class="number" x="{x}" y="{y + 4}">{number}</text>']
    for i, line in enumerate(lines):
        parts.append(f'<text class="text" x="{x + 16}" y="{y + 5 + 18 * i}">{escape(line)}</text>')
    return parts


def marker(name, size):
    """The head of an arrow, its tip at the line's end; `size` in pixels."""
    return (f'<marker id="{name}" markerUnits="userSpaceOnUse" markerWidth="{size}" markerHeight="{size}" '
            f'refX="{size}" refY="{size / 2:g}" orient="auto">'
            f'<path class="{name}" d="M0,0 L{size},{size / 2:g} L0,{size} z"/></marker>')


def draw():
    """The picture as text."""
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" role="img">',
        "<title>The way of a request through router, prefill worker and decode worker</title>",
        f"<style>{STYLE}</style>",
        "<defs>", marker("head", 10), marker("pushhead", 18), "</defs>",
        f'<rect class="page" x="0.5" y="0.5" width="{WIDTH - 1}" height="{HEIGHT - 1}" rx="10"/>',
    ]
    parts += box(24, 165, 110, 90, "Client", ["HTTP or gRPC"])
    parts += box(250, 150, 160, 120, "Router", ["admits, tokenises,", "queues, places,", "resumes"])
    parts += box(600, 30, 250, 90, "Prefill worker", ["computes the prompt's KV", "in one parallel causal pass"])
    parts += box(600, 300, 250, 90, "Decode worker", ["generates a token per step", "for a batch of sequences"])

    parts += arrow([(134, 190), (250, 190)])
    parts += label(160, 173, 1, "prompt")
    parts += arrow([(250, 230), (134, 230)])
    parts += label(160, 250, 8, "text")

    parts += arrow([(330, 150), (330, 75), (600, 75)])
    parts += label(350, 57, 4, "Prefill: compute the prompt")

    parts += arrow([(310, 270), (310, 368), (600, 368)])
    parts += label(330, 386, 2, "Decode: reserve blocks")
    parts += arrow([(600, 322), (360, 322), (360, 270)])
    parts += label(380, 303, 3, "accepted")
    parts += label(475, 303, 7, "tokens")

    parts += arrow([(725, 120), (725, 299)], "push")
    parts += label(555, 185, 5, "push: each layer's KV", "while the next is", "computed")
    parts += label(755, 185, 6, "commit:", "digest and", "first token")
    parts.append("</svg>")
    return "\n".join(parts) + "\n"


if __name__ == "__main__":
    SVG.write_text(draw(), encoding="utf-8")
