#!/usr/bin/env python3
"""Asks a Prometheus for each panel of a dashboard of Grafana, and draws the answers. docs/testing.md describes it.

    dashboard.py DASHBOARD PROMETHEUS PICTURE    like dashboard.json http://127.0.0.1:9090 dashboard.svg

The script ends with 1 if a query fails, if a panel or a variable has no data, if two lines of a panel
have the same name, or if a title does not fit.
"""

import argparse
import json
import math
import re
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from html import escape

COLUMN, ROW, GAP = 50, 32, 8
TEXT, MUTED, LINE, GROUND, PANEL = "#24292e", "#6e7681", "#e4e7eb", "#f4f5f5", "#ffffff"
COLOURS = ["#56a64b", "#e0b400", "#3274d9", "#e02f44", "#ff780a", "#8f3bb8", "#37872d", "#1f60c4", "#b877d9", "#0a7c8c",
           "#c4162a", "#806eb7"]
NAMED = {"green": "#37872d", "orange": "#fa6400", "red": "#c4162a", "blue": "#1f60c4", "text": MUTED}
LETTER = 6.3  # The width of a letter of 10.5 pixels, about.


def options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dashboard", help="the JSON of the dashboard")
    parser.add_argument("prometheus", help="the address of a Prometheus")
    parser.add_argument("picture", help="the SVG that is written")
    parser.add_argument("--minutes", type=float, default=60, help="the time that is shown (default: 60)")
    parser.add_argument("--ago", type=float, default=0, help="the minutes since the end of that time (default: 0)")
    parser.add_argument("--scrape", type=float, default=15, help="seconds between two scrapes (default: 15)")
    parser.add_argument("--points", type=int, default=120, help="the points of a line, at most (default: 120)")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="a variable (default: all values)")
    return parser.parse_args()


class Prometheus:
    """Queries over one range of time, in steps as Grafana makes them."""

    def __init__(self, address, seconds, ago, scrape, points):
        self.address = address.rstrip("/")
        self.step = max(scrape, math.ceil(seconds / points))
        self.end = math.floor((time.time() - ago) / self.step) * self.step
        self.start = self.end - math.floor(seconds / self.step) * self.step
        self.known = {
            "__interval": f"{self.step:g}s",
            "__interval_ms": f"{self.step * 1000:g}",
            "__range": f"{seconds:g}s",
            "__range_s": f"{seconds:g}",
            "__rate_interval": f"{max(self.step + scrape, 4 * scrape):g}s",
        }

    def ask(self, path, **query):
        """The data of an answer. A refused query raises ValueError with its message."""
        text = urllib.parse.urlencode(query, doseq=True)
        try:
            with urllib.request.urlopen(f"{self.address}/api/v1/{path}?{text}", timeout=60) as answer:
                return json.load(answer)["data"]
        except urllib.error.HTTPError as error:
            raise ValueError(json.load(error).get("error", error.reason)) from error

    def fill(self, text):
        """The text with the values of the variables in it."""

        def value(found):
            name = found[1] or found[2]
            if name not in self.known:
                raise ValueError(f"there is no variable {name}")
            return self.known[name]

        return re.sub(r"\$(\w+)|\$\{(\w+)(?::\w+)?\}", value, text)

    def variable(self, variable, chosen):
        """Learns a variable. It needs a value that the Prometheus has, as Grafana lists them."""
        name = variable["name"]
        if variable["type"] == "datasource":
            self.known[name] = "prometheus"
            return
        metric, label = re.fullmatch(r"label_values\((.+), *(\w+)\)", variable["query"]).groups()
        match = {"match[]": self.fill(metric), "start": self.start, "end": self.end}
        values = self.ask(f"label/{label}/values", **match)
        self.known[name] = re.escape(chosen) if chosen else variable["allValue"]
        if not values or (chosen and chosen not in values):
            raise ValueError(f"its values are {values}")

    def series(self, target):
        """The lines of a query: a name, and a value or None for each step."""
        query = self.fill(target["expr"])
        found = self.ask("query_range", query=query, start=self.start, end=self.end, step=self.step)
        lines = []
        for one in found["result"]:
            at = {round(moment): float(value) for moment, value in one["values"]}
            values = [at.get(round(moment)) for moment in self.steps()]
            lines.append((self.named(target, one["metric"]), [v if v is not None and math.isfinite(v) else None for v in values]))
        return [line for line in lines if any(value is not None for value in line[1])]

    @staticmethod
    def named(target, labels):
        return re.sub(r"\{\{\s*(\w+)\s*\}\}", lambda found: labels.get(found[1], ""), target["legendFormat"])

    def steps(self):
        count = round((self.end - self.start) / self.step) + 1
        return [self.start + step * self.step for step in range(count)]


def digits(value):
    """Three digits, without zeros at the end."""
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def scaled(value, base, names):
    for name in names[:-1]:
        if value < base:
            return f"{digits(value)} {name}".rstrip()
        value /= base
    return f"{digits(value)} {names[-1]}"


def in_seconds(value):
    for least, name in [(60, "min"), (1, "s"), (1e-3, "ms"), (1e-6, "µs")]:
        if value >= least:
            return f"{digits(value / least)} {name}"
    return "0 s" if value == 0 else f"{digits(value * 1e9)} ns"


UNITS = {
    "short": lambda value: scaled(value, 1000, ["", "K", "Mil", "Bil"]),
    "ops": lambda value: f"{scaled(value, 1000, ['', 'K', 'M'])} ops/s",
    "s": in_seconds,
    "bytes": lambda value: scaled(value, 1024, ["B", "KiB", "MiB", "GiB", "TiB"]),
    "percentunit": lambda value: f"{digits(value * 100)}%",
}


def ticks(top, unit):
    """Round values from 0, the last of which is not below `top`."""
    if top == 0:
        return [0, 1]
    base = 1024 if unit == "bytes" else 10
    rough = top / 4
    power = base ** math.floor(math.log(rough, base))
    choices = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024] if base == 1024 else [1, 2, 2.5, 5, 10]
    step = next(choice * power for choice in choices if choice * power >= rough * 0.999)
    return [step * number for number in range(math.ceil(top / step - 1e-9) + 1)]


def text(x, y, said, size=10.5, colour=MUTED, **more):
    attributes = "".join(f' {name.replace("_", "-")}="{value}"' for name, value in more.items())
    return f'<text x="{x:g}" y="{y:g}" font-size="{size}" fill="{colour}"{attributes}>{escape(said)}</text>'


def box(x, y, w, h, colour, **more):
    attributes = "".join(f' {name.replace("_", "-")}="{value}"' for name, value in more.items())
    return f'<rect x="{x:g}" y="{y:g}" width="{w:g}" height="{h:g}" fill="{colour}"{attributes}/>'


def straight(points):
    """The points without those on the straight line between their neighbours."""
    kept = []
    for point in points:
        if len(kept) > 1:
            (ax, ay), (bx, by) = kept[-2:]
            if abs((bx - ax) * (point[1] - ay) - (by - ay) * (point[0] - ax)) < 0.05 * (point[0] - ax):
                kept.pop()
        kept.append(point)
    return kept


def pieces(points):
    """The runs of points between gaps."""
    piece = []
    for point in [*points, None]:
        if point:
            piece.append(point)
        elif piece:
            yield piece
            piece = []


def path(points):
    x, y = (round(value, 1) for value in points[0])
    said = f"M{x:g} {y:g}l"
    steps = []
    for next_x, next_y in points[1:] or [(points[0][0] + 1, points[0][1])]:
        next_x, next_y = round(next_x, 1), round(next_y, 1)
        steps.append(f"{round(next_x - x, 1):g} {round(next_y - y, 1):g}")
        x, y = next_x, next_y
    return said + " ".join(steps)


class Picture:
    def __init__(self, prometheus, title):
        self.prometheus, self.title, self.parts, self.height = prometheus, title, [], 0

    def place(self, grid):
        """The left, the top, the width and the height of a panel, in pixels."""
        x, y = grid["x"] * COLUMN + GAP, grid["y"] * ROW + 40
        self.height = max(self.height, y + grid["h"] * ROW)
        return x, y, grid["w"] * COLUMN - GAP, grid["h"] * ROW - GAP

    def row(self, panel):
        x, y, _, _ = self.place(panel["gridPos"])
        self.parts.append(text(x, y + 17, panel["title"], 14, TEXT, font_weight="bold"))

    def panel(self, panel, lines):
        x, y, w, h = self.place(panel["gridPos"])
        self.parts.append(box(x, y, w, h, PANEL, stroke=LINE, rx=2))
        self.parts.append(text(x + 8, y + 18, panel["title"], 12, TEXT, font_weight="bold"))
        room = (x + 8, y + 28, w - 16, h - 34)
        if not lines:
            self.parts.append(text(x + w / 2, y + h / 2, "No data", 14, text_anchor="middle"))
        elif panel["type"] == "stat":
            self.stat(panel, lines, *room)
        else:
            self.graph(panel, lines, *room)

    def stat(self, panel, lines, x, y, w, h):
        defaults = panel["fieldConfig"]["defaults"]
        # Without thresholds Grafana has these.
        steps = defaults.get("thresholds", {}).get("steps") or [{"color": "green", "value": None}, {"color": "red", "value": 80}]
        each = h / len(lines)
        for number, (name, values) in enumerate(lines):
            last = [value for value in values if value is not None][-1]
            colour = [step["color"] for step in steps if step["value"] is None or last >= step["value"]][-1]
            said, middle = UNITS[defaults["unit"]](last), y + each * number + each / 2
            size = min(44, each * 0.5, 1.6 * w / len(said))
            self.parts.append(text(x + w / 2, middle + size / 3, said, f"{size:.0f}", NAMED[colour], text_anchor="middle"))
            if len(lines) > 1:
                self.parts.append(text(x + w / 2, middle - size / 2 - 4, name, text_anchor="middle"))

    @staticmethod
    def colours(panel, lines):
        """The colour of each line: that of the last override that matches, or the next one."""
        found = [COLOURS[number % len(COLOURS)] for number in range(len(lines))]
        for override in panel["fieldConfig"]["overrides"]:
            matcher, properties = override["matcher"], {one["id"]: one["value"] for one in override["properties"]}
            for number, (name, _) in enumerate(lines):
                option = matcher["options"]
                matches = {"byName": name == option, "byRegexp": re.search(option.strip("/"), name)}[matcher["id"]]
                if matches:
                    found[number] = NAMED[properties["color"]["fixedColor"]]
        return found

    def legend(self, lines, colours, x, y, w, h):
        """Draws the names below, in at most four rows. The height that is left."""
        rows, at = [[]], 0
        for number, (name, _) in enumerate(lines):
            wide = 22 + LETTER * len(name)
            if at + wide > w and rows[-1]:
                rows.append([])
                at = 0
            rows[-1].append((at, number, name))
            at += wide
        hidden = sum(len(row) for row in rows[4:])
        rows = rows[:4]
        top = y + h - 14 * len(rows)
        for line, row in enumerate(rows):
            for left, number, name in row:
                middle = top + 14 * line + 8
                self.parts.append(box(x + left, middle - 4.5, 12, 3, colours[number]))
                self.parts.append(text(x + left + 16, middle, name, colour=TEXT))
        if hidden:
            self.parts.append(text(x + w, y + h - 6, f"and {hidden} more", text_anchor="end"))
        return h - 14 * len(rows) - 6

    def graph(self, panel, lines, x, y, w, h):
        defaults = panel["fieldConfig"]["defaults"]
        custom, unit = defaults["custom"], defaults["unit"]
        stacked = custom.get("stacking", {}).get("mode") == "normal"
        colours = self.colours(panel, lines)
        h = self.legend(lines, colours, x, y, w, h) - 16
        below, shown = [0.0] * len(lines[0][1]), []
        for _, values in lines:
            if stacked:
                values = [base + (value or 0) for base, value in zip(below, values)]
                shown.append((values, below))
                below = values
            else:
                shown.append((values, None))
        top = max(value for values, _ in shown for value in values if value is not None)
        marks = ticks(max(top, defaults.get("max", 0)), unit)
        names = [UNITS[unit](mark) for mark in marks]
        left = x + 8 + LETTER * max(map(len, names))
        wide, moments = x + w - left, self.prometheus.steps()

        def at(number, value):
            return left + wide * number / max(1, len(moments) - 1), y + h - h * value / marks[-1]

        for mark, name in zip(marks, names):
            level = at(0, mark)[1]
            self.parts.append(f'<path d="M{left:.1f} {level:.1f}h{wide:.1f}" stroke="{LINE}"/>')
            self.parts.append(text(left - 5, round(level + 3.5, 1), name, text_anchor="end"))
        # Moments of the clock, about 80 pixels apart.
        seconds = moments[-1] - moments[0]
        apart = next((s for s in (15, 30, 60, 120, 300, 600, 900, 1800, 3600) if s * wide >= 80 * seconds), 7200)
        for number, moment in enumerate(moments):
            if moment % apart < self.prometheus.step and 15 < number * wide / len(moments) < wide - 20:
                said = time.strftime("%H:%M" if apart >= 60 else "%H:%M:%S", time.gmtime(moment))
                self.parts.append(text(round(at(number, 0)[0], 1), y + h + 13, said, text_anchor="middle"))
        for number, (values, base) in enumerate(shown):
            colour = colours[number]
            points = [None if value is None else at(place, value) for place, value in enumerate(values)]
            for piece in pieces(points):
                piece = straight(piece)
                if base and len(piece) > 1:
                    back = straight([at(place, value) for place, value in reversed(list(enumerate(base)))])
                    area = path(piece) + "L" + path(back)[1:] + "z"
                    self.parts.append(f'<path d="{area}" fill="{colour}" fill-opacity="{custom["fillOpacity"] / 100:g}"/>')
                self.parts.append(f'<path d="{path(piece)}" fill="none" stroke="{colour}" stroke-width="1.3"/>')

    def write(self, file):
        wide, high = 24 * COLUMN + GAP, self.height
        prometheus = self.prometheus
        hours = [time.strftime("%H:%M", time.gmtime(moment)) for moment in (prometheus.start, prometheus.end)]
        said = f"{hours[0]} to {hours[1]} UTC, a point each {prometheus.step:g} s, rates over {prometheus.known['__rate_interval']}"
        with open(file, "w", encoding="utf-8") as out:
            out.write(
                f'<svg xmlns="http://www.w3.org/2000/svg" width="{wide}" height="{high}" viewBox="0 0 {wide} {high}"'
                f' font-family="Inter, Helvetica, Arial, sans-serif" stroke-linejoin="round">\n'
                + "\n".join([box(0, 0, wide, high, GROUND), text(GAP, 27, self.title, 18, TEXT),
                             text(wide - GAP, 26, said, 12, text_anchor="end"), *self.parts])
                + "\n</svg>\n"
            )


def panels(dashboard):
    """All panels, those in closed rows included."""
    for panel in dashboard["panels"]:
        yield panel
        yield from panel.get("panels", [])


def draw(chosen):
    """Draws the dashboard. True: each panel has data."""
    with open(chosen.dashboard, encoding="utf-8") as file:
        dashboard = json.load(file)
    prometheus = Prometheus(chosen.prometheus, chosen.minutes * 60, chosen.ago * 60, chosen.scrape, chosen.points)
    wanted, troubles = dict(pair.split("=", 1) for pair in chosen.set), []
    for variable in dashboard["templating"]["list"]:
        try:
            prometheus.variable(variable, wanted.get(variable["name"]))
        except ValueError as error:
            troubles.append(f"the variable {variable['name']}: {error}")
    picture = Picture(prometheus, dashboard["title"])
    for panel in panels(dashboard):
        if panel["type"] == "row":
            picture.row(panel)
            continue
        lines = []
        for target in panel["targets"]:
            try:
                found = prometheus.series(target)
            except ValueError as error:
                troubles.append(f"{panel['title']}: {target['expr']}: {error}")
                continue
            if not found:
                print(f"  no data: {panel['title']}: {target['expr']}")
            lines += found
        names = [name for name, _ in lines]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            troubles.append(f"{panel['title']}: several lines are named {', '.join(twice)}")
        if not lines:
            troubles.append(f"{panel['title']}: no data")
        if LETTER * 1.2 * len(panel["title"]) > panel["gridPos"]["w"] * COLUMN:
            troubles.append(f"{panel['title']}: the title is wider than the panel")
        shown = UNITS[panel["fieldConfig"]["defaults"]["unit"]]
        most = max((value for _, values in lines for value in values if value is not None), default=0)
        print(f"{panel['title']}: {len(lines)} lines, at most {shown(most)}")
        picture.panel(panel, lines)
    picture.write(chosen.picture)
    for trouble in troubles:
        print(f"WRONG: {trouble}", file=sys.stderr)
    return not troubles


if __name__ == "__main__":
    sys.exit(0 if draw(options()) else 1)
