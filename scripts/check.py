#!/usr/bin/env python3
"""Checks a change: lint, an incremental debug build, and the tests of the targets that it touches.

The change is what differs from COMMIT (HEAD), with files that git does not know. Tests of a touched target are the test targets that name it
among their dependencies in Package.swift. Of IntegrationTests, which start whole brokers, only the suites of changed files run. With names,
the tests whose names contain one of them run instead.
"""
import argparse, json, pathlib, re, subprocess, sys, tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
# Its suites test the programs together, so each change would run all of them.
WHOLE = "IntegrationTests"


def output(*command):
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout


def changed(since):
    """Returns the paths of files that differ from a commit."""
    return set(output("git", "diff", "--name-only", since).split("\n") + output(
        "git", "ls-files", "--others", "--exclude-standard").split("\n")) - {""}


def package():
    """Returns the targets of the package: by name, the folder, the dependencies, and whether it has tests."""
    dump = json.loads(output("swift", "package", "dump-package"))
    found = {}
    for target in dump["targets"]:
        is_test = target["type"] == "test"
        path = target.get("path") or ("Tests/" if is_test else "Sources/") + target["name"]
        found[target["name"]] = (path + "/", {next(iter(d.values()))[0] for d in target["dependencies"]}, is_test)
    return found


def suites(paths):
    """Returns the names of the suites in files of tests."""
    texts = [(ROOT / p).read_text() for p in paths if (ROOT / p).exists()]
    return {name for text in texts for name in re.findall(r"^(?:struct|extension|@Suite.*struct) (\w+)", text, re.M)}


def filters(paths):
    """Returns the patterns of the tests to run after a change of files."""
    targets = package()
    touched = {name for name, (folder, _, _) in targets.items() if any(p.startswith(folder) for p in paths)}
    if "Package.swift" in paths:
        touched = set(targets)
    tests = {name for name, (_, uses, is_test) in targets.items() if is_test and (name in touched or uses & touched)}
    patterns = [rf"^{name}\." for name in sorted(tests - {WHOLE})]
    folder = targets[WHOLE][0]
    return patterns + [rf"^{WHOLE}\.{name}/" for name in sorted(suites(p for p in paths if p.startswith(folder)))]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--since", metavar="COMMIT", default="HEAD")
    parser.add_argument("name", nargs="*")
    options = parser.parse_args()
    patterns = options.name or filters(changed(options.since))
    if patterns:
        print("tests:", *(re.sub(r"[\^\\/]", "", p).rstrip(".") for p in patterns))
    else:
        print(f"no target differs from {options.since}: only lint and the build; TESTS=NAME runs tests")
    lines = ["lint 1 scripts/lint.sh", "build 1 make --no-print-directory build-tests"]
    if patterns:
        # A timing suite runs where it is named or has changed.
        beside = "" if any("Timing" in p for p in patterns) else "--beside"
        lines.append(f"tests 1 after=build scripts/run-tests.sh {beside} --filter '{'|'.join(patterns)}'")
    with tempfile.NamedTemporaryFile("w", suffix=".groups") as table:
        table.write("\n".join(lines))
        table.flush()
        sys.exit(subprocess.run(["scripts/groups.py", table.name], cwd=ROOT).returncode)


main()
