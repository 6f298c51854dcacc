#!/usr/bin/env python3
"""Counts idioms in the comments of Sources that replace a name by a clause, and fails above their limits.

usage: scripts/lint-words.py [--list] [FOLDER…]   with --list: prints all occurrences, also below the limits

The limits are occurrences per 1,000 comment lines. CONTRIBUTING.md describes the style.
"""
import pathlib, re, sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
IDIOMS = [
    ("what is", 1, re.compile(r"\bwhat (?:is|was|are)\b", re.I)),
    ("nobody", 1, re.compile(r"\b(?:no|some|any)body\b", re.I)),
    ("whoever", 1, re.compile(r"\b(?:who|what)ever\b", re.I)),
    ("is none", 1, re.compile(r"\b(?:is|are|as) none\b", re.I)),
    ("so many", 1, re.compile(r"\bso (?:many|much|long)\b", re.I)),
    ("a question as summary", 15, re.compile(r"^/// (?:What|Who|How (?:long|many|much|often))\b")),
]


def comments(folders):
    """Yields path, line number and text of each comment line."""
    for folder in folders:
        for path in sorted(pathlib.Path(folder).rglob("*")):
            if path.suffix not in (".swift", ".c", ".h"):
                continue
            for number, line in enumerate(path.read_text().splitlines(), 1):
                if line.lstrip().startswith("//"):
                    yield path, number, line.strip()


def main(arguments):
    lists = "--list" in arguments
    folders = [a for a in arguments if a != "--list"] or [ROOT / "Sources"]
    lines = list(comments(folders))
    failed = False
    for name, limit, pattern in IDIOMS:
        found = [(line, len(pattern.findall(line[2]))) for line in lines if pattern.search(line[2])]
        rate = 1000 * sum(count for _, count in found) / max(len(lines), 1)
        exceeds = rate > limit
        failed = failed or exceeds
        if exceeds or lists:
            for (path, number, text), _ in found:
                print(f"{path.relative_to(ROOT) if path.is_relative_to(ROOT) else path}:{number}: {name}: {text}")
        if exceeds:
            print(f"error: {name}: {rate:.1f} per 1,000 comment lines, at most {limit}", file=sys.stderr)
    return failed


sys.exit(main(sys.argv[1:]))
