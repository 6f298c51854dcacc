#!/usr/bin/env python3
"""Draws the package's targets and their dependencies, from the bottom up, into docs/floors.svg.

usage: scripts/floors.py [--check]   with --check: compares the picture with the package, and fails when they differ

A target stands one floor above the highest target that it depends on. Dependencies that follow from others are pale.
"""
import json, os, pathlib, re, subprocess, sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
PICTURE = ROOT / "docs/floors.svg"
WIDTH, HEIGHT, ROW, GAP = 112, 34, 96, 12
COLORS = {"system": "#e2e8f0", "C": "#ffedd5", "regular": "#dbeafe", "executable": "#dcfce7"}


def package():
    """Returns the kind and the dependencies of each target of the product, by name."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("IMGBROKER_")}
    command = ["swift", "package", "--package-path", str(ROOT), "dump-package"]
    dump = json.loads(subprocess.run(command, env=environment, capture_output=True, check=True).stdout)
    targets = {}
    for target in dump["targets"]:
        name, path = target["name"], target.get("path") or "Sources/" + target["name"]
        if target["type"] == "test" or not path.startswith("Sources/"):
            continue
        kind = "C" if target["type"] == "regular" and re.match("C[A-Z]", name) else target["type"]
        targets[name] = (kind, {next(iter(d.values()))[0] for d in target["dependencies"]})
    return targets


def floors(targets):
    """Returns the floor of each target: 0 for libraries of the system, which stand apart."""
    known = {}

    def floor(name):
        if name not in known:
            below = [floor(d) for d in targets[name][1]]
            known[name] = 0 if targets[name][0] == "system" else 1 + max(below, default=0)
        return known[name]

    for name in targets:
        floor(name)
    return known


def is_implied(targets, name, dependency):
    """Whether another dependency of the target depends on this one, directly or not."""
    reached, open_ = set(), [d for d in targets[name][1] if d != dependency]
    while open_:
        for d in targets[open_.pop()][1] - reached:
            reached.add(d)
            open_.append(d)
    return dependency in reached


def placed(targets, floor):
    """Returns the centre of each box: rows by floor, each ordered by the places of the targets that depend on it."""
    rows = [sorted(n for n in targets if floor[n] == f) for f in range(max(floor.values()) + 1)]
    breadth = max(len(row) for row in rows) * (WIDTH + GAP) + GAP
    x = {}

    def spread(row):
        for i, name in enumerate(row):
            x[name] = breadth * (i + 0.5) / len(row)

    for row in rows:
        spread(row)
    users = {n: [u for u in targets if n in targets[u][1]] for n in targets}
    for sweep in range(8):
        for row in reversed(rows) if sweep % 2 == 0 else rows:
            near = users if sweep % 2 == 0 else {n: targets[n][1] for n in targets}
            mean = {n: sum(x[m] for m in near[n]) / len(near[n]) if near[n] else x[n] for n in row}
            spread(sorted(row, key=lambda n: (mean[n], n)))
    height = (len(rows) - 1) * ROW + HEIGHT + 2 * GAP
    return {n: (x[n], height - GAP - HEIGHT / 2 - floor[n] * ROW) for n in targets}, breadth, height


def draw(targets):
    floor = floors(targets)
    place, breadth, height = placed(targets, floor)
    arrows = [(is_implied(targets, n, d), n, d) for n in sorted(targets) for d in sorted(targets[n][1])]
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {breadth} {height}" font-family="sans-serif" font-size="11">',
        f'<rect width="{breadth}" height="{height}" fill="#ffffff"/>',
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="6" markerHeight="6" orient="auto">'
        '<path d="M0 0L8 4L0 8z" fill="#475569"/></marker></defs>',
    ]
    for implied, name, dependency in sorted(arrows, reverse=True):
        (x1, y1), (x2, y2) = place[name], place[dependency]
        y1, y2 = y1 + HEIGHT / 2, y2 - HEIGHT / 2
        style = 'stroke="#e2e8f0"' if implied else 'stroke="#475569" marker-end="url(#tip)"'
        middle = (y1 + y2) / 2
        lines.append(
            f'<path data-arrow="{name} {dependency}" fill="none" {style} '
            f'd="M{x1:.0f} {y1:.0f}C{x1:.0f} {middle:.0f} {x2:.0f} {middle:.0f} {x2:.0f} {y2:.0f}"/>')
    for name in sorted(targets):
        (x, y), color = place[name], COLORS[targets[name][0]]
        lines.append(
            f'<g data-target="{name}" data-floor="{floor[name]}"><rect x="{x - WIDTH / 2:.0f}" y="{y - HEIGHT / 2:.0f}" '
            f'width="{WIDTH}" height="{HEIGHT}" rx="5" fill="{color}" stroke="#64748b"/>'
            f'<text x="{x:.0f}" y="{y + 4:.0f}" text-anchor="middle">{name}</text></g>')
    return "\n".join(lines + ["</svg>", ""])


def named(picture):
    """Returns what a picture shows: targets with their floors, and arrows."""
    return set(re.findall(r'data-target="(\w+)" data-floor="(\d+)"', picture)) | set(
        re.findall(r'data-arrow="(\w+) (\w+)"', picture))


def main():
    picture = draw(package())
    if sys.argv[1:] == ["--check"]:
        shown = PICTURE.read_text() if PICTURE.exists() else ""
        for a, b in sorted(named(picture) - named(shown)):
            print(f"docs/floors.svg lacks {a} {'on floor' if b.isdigit() else '→'} {b}", file=sys.stderr)
        for a, b in sorted(named(shown) - named(picture)):
            print(f"docs/floors.svg shows {a} {'on floor' if b.isdigit() else '→'} {b}", file=sys.stderr)
        if shown != picture:
            sys.exit("error: docs/floors.svg is not the package's; run scripts/floors.py")
    elif sys.argv[1:]:
        sys.exit(__doc__)
    else:
        PICTURE.write_text(picture)


main()
