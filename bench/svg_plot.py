"""The plots of bench/compare, written as SVG by hand: no library, light background, readable in grey."""
import html
import math

COLOURS = ["#1f6fb2", "#d9822b", "#3a8f4d", "#b23a48", "#6b4fa0", "#7a6a58", "#c05fa0", "#5f6b75", "#a8a02c", "#2ba3a8", "#333333"]
INK, FAINT, FONT = "#222222", "#d8d8d8", "DejaVu Sans, Arial, sans-serif"


class Canvas:
    def __init__(self, width, height):
        self.width, self.height, self.parts = width, height, []

    def line(self, points, colour=INK, width=1.0, dash=""):
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        dashes = f' stroke-dasharray="{dash}"' if dash else ""
        self.parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="{width}"{dashes}/>')

    def box(self, x, y, width, height, colour):
        self.parts.append(f'<rect x="{x:.1f}" y="{y:.1f}" width="{max(width, 0):.1f}" height="{height:.1f}" fill="{colour}"/>')

    def dot(self, x, y, colour):
        self.parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.6" fill="{colour}"/>')

    def text(self, x, y, text, anchor="start", size=12, bold=False):
        weight = ' font-weight="bold"' if bold else ""
        safe = html.escape(str(text))
        self.parts.append(f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}"{weight} fill="{INK}">{safe}</text>')

    def svg(self):
        size = f'width="{self.width}" height="{self.height}" viewBox="0 0 {self.width} {self.height}"'
        head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="{FONT}">\n<rect width="100%" height="100%" fill="#ffffff"/>\n'
        return head + "\n".join(self.parts) + "\n</svg>\n"


def legend(canvas, x, y, names):
    for name, colour in names:
        canvas.box(x, y - 9, 12, 10, colour)
        canvas.text(x + 17, y, name)
        x += 32 + 7.5 * len(name)


def speed(figures, titles):
    """Bars: how fast weir is beside each peer, by measure; 1 is the peer's speed."""
    rows = [(row, peer, p["weir_is_faster_by"]) for row in figures for peer, p in row["programs"].items() if "weir_is_faster_by" in p]
    peers = list(dict.fromkeys(peer for _, peer, _ in rows))
    colour = dict(zip(peers, COLOURS))
    left, top, bar, right, gap = 290, 70, 15, 820, 8
    groups = list(dict.fromkeys((row["model"], row["measure"]) for row, _, _ in rows))
    canvas = Canvas(900, top + 40 + len(rows) * bar + len(groups) * gap)
    canvas.text(20, 28, "How many times as fast as each peer weir is", size=15, bold=True)
    legend(canvas, 20, 52, [(titles[peer], colour[peer]) for peer in peers])
    most = max([ratio["high"] for _, _, ratio in rows] + [2])
    step = next(s for s in (0.5, 1, 2, 5, 10, 20, 50, 100, 1e9) if most / s <= 10)

    def x_of(ratio):
        return left + (right - left) * ratio / most

    bottom = canvas.height - 34
    for i in range(int(most / step) + 1):
        canvas.line([(x_of(i * step), top - 4), (x_of(i * step), bottom)], FAINT)
        canvas.text(x_of(i * step), bottom + 18, f"{i * step:g}×", "middle", 11)
    y = top
    for group in groups:
        mine = [(peer, ratio) for row, peer, ratio in rows if (row["model"], row["measure"]) == group]
        canvas.text(left - 10, y + len(mine) * bar / 2 + 4, " ".join(group), "end", 11)
        for peer, ratio in mine:
            canvas.box(left, y + 1, x_of(ratio["median"]) - left, bar - 3, colour[peer])
            canvas.line([(x_of(ratio["low"]), y + bar / 2 - 0.5), (x_of(ratio["high"]), y + bar / 2 - 0.5)], INK, 1.2)
            canvas.text(x_of(ratio["high"]) + 5, y + bar - 4, f"{ratio['median']:.2f}", size=10)
            y += bar
        y += gap
    canvas.line([(x_of(1), top - 4), (x_of(1), bottom)], INK, 1.4, "4 3")
    return canvas.svg()


def kernels(figures):
    """A panel for each op: the share of the bound over the number of rows, a line for each type.

    A figure is {"op", "type", "rows", "gb_s", "gops", "bound", "share"}: share is 0 .. 1 of the bound that holds for that many rows.
    """
    ops = list(dict.fromkeys(f["op"] for f in figures))
    types = list(dict.fromkeys(f["type"] for f in figures))
    colour = {name: COLOURS[i % len(COLOURS)] for i, name in enumerate(types)}
    columns = min(2, len(ops))
    width, height, top = 450, 270, 76
    canvas = Canvas(20 + columns * width, top + math.ceil(len(ops) / columns) * height + 8)
    canvas.text(20, 28, "Share of the roofline by kernel, type and number of rows", size=15, bold=True)
    legend(canvas, 20, 52, [(name, colour[name]) for name in types])
    for i, op in enumerate(ops):
        mine = [f for f in figures if f["op"] == op]
        panel(canvas, 20 + i % columns * width, top + i // columns * height, width, height, mine, op, colour)
    return canvas.svg()


def panel(canvas, x, y, width, height, figures, title, colour):
    left, right, top, bottom = x + 44, x + width - 16, y + 26, y + height - 40
    rows = sorted({f["rows"] for f in figures})
    most = max([f["share"] for f in figures] + [1.0])

    def place(f):
        at = rows.index(f["rows"]) / max(len(rows) - 1, 1)
        return left + (right - left) * at, bottom - (bottom - top) * f["share"] / most

    canvas.text(left, y + 14, title, bold=True)
    for tenth in range(0, int(most * 10) + 1, 2):
        level = bottom - (bottom - top) * tenth / 10 / most
        canvas.line([(left, level), (right, level)], INK if tenth == 10 else FAINT, 1, "4 3" if tenth == 10 else "")
        canvas.text(left - 6, level + 4, f"{tenth * 10} %", "end", 10)
    for count in rows:
        at = place(dict(rows=count, share=0))[0]
        canvas.line([(at, bottom), (at, bottom + 4)])
        canvas.text(at, bottom + 16, count, "middle", 10)
    canvas.text((left + right) / 2, bottom + 31, "rows", "middle", 10)
    for kind in dict.fromkeys(f["type"] for f in figures):
        line = sorted((f for f in figures if f["type"] == kind), key=lambda f: f["rows"])
        canvas.line([place(f) for f in line], colour[kind], 1.8)
        for f in line:
            canvas.dot(*place(f), colour[kind])
