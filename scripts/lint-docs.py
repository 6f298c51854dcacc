#!/usr/bin/env python3
"""Checks that links and paths in the Markdown pages exist, and that lines and table cells are short.

usage: scripts/lint-docs.py
"""
import pathlib, re, sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
LONGEST_CELL = 170
LONGEST_LINE = 120
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "clients").rglob("*.md")])


def lines(page):
    """Yields number and text of each line outside of code blocks."""
    is_code = False
    for number, line in enumerate(page.read_text().splitlines(), 1):
        if line.lstrip().startswith("```"):
            is_code = not is_code
        elif not is_code:
            yield number, line


def anchors(page):
    """Returns the anchors that a page's headings have, as GitHub makes them."""
    found, seen = set(), {}
    for _, line in lines(page):
        if heading := re.match(r"#+ (.*)", line):
            text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading[1]).lower()
            anchor = re.sub(r"[^\w\- ]", "", text).replace(" ", "-")
            count = seen.get(anchor, 0)
            seen[anchor] = count + 1
            found.add(f"{anchor}-{count}" if count else anchor)
    return found


def main():
    known = {page: anchors(page) for page in PAGES}
    failed = False
    for page in PAGES:
        is_generated = False
        for number, line in lines(page):
            problems = []
            # Between marks, programs write the text.
            if line.startswith("<!-- "):
                is_generated = not line.startswith("<!-- end")
            is_whole = is_generated or line.startswith("|") or re.fullmatch(r"!?\[.*\]\(\S+\)|\S+", line.strip())
            if len(line) > LONGEST_LINE and not is_whole:
                problems.append(f"the line has {len(line)} characters, at most {LONGEST_LINE}")
            for link in re.findall(r"\]\(([^)\s]+)\)", re.sub(r"`[^`]*`", "", line)):
                path, _, anchor = link.partition("#")
                target = (page.parent / path).resolve() if path else page
                if re.match(r"\w+:", link):
                    continue
                if not target.exists():
                    problems.append(f"{link} does not exist")
                elif anchor and anchor not in known.get(target, ()):
                    problems.append(f"{link}: there is no such heading")
            for path in re.findall(r"`((?:Sources|Tests|Fuzz|Benchmarks|clients|scripts|docs)/[\w+./-]+)`", line):
                if not (ROOT / path).exists():
                    problems.append(f"{path} does not exist")
            if line.startswith("|"):
                for cell in re.sub(r"\]\([^)]*\)", "]", line).split("|"):
                    if len(cell.strip()) > LONGEST_CELL:
                        problems.append(f"a table cell has {len(cell.strip())} characters, at most {LONGEST_CELL}")
            for problem in problems:
                failed = True
                print(f"{page.relative_to(ROOT)}:{number}: error: {problem}", file=sys.stderr)
    return failed


sys.exit(main())
