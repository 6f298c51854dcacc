#!/usr/bin/env python3
"""Runs groups of checks side by side, as many at once as the processors allow.

A line of the table is a group: its name, the processors that it uses ("all": it runs alone), optionally "after=NAME,...", and its command.
Groups start in the order of the table. With names, only these groups run, and those after which they run must have run before.

Each group has a log, .build/logs/NAME.log, and a temporary directory, $TMPDIR. The first failure prints the end of its log and ends the
others. A group also fails when it leaves a process, a mount, or an entry of its temporary directory.
"""
import argparse, ctypes, os, pathlib, re, shutil, signal, subprocess, sys, tempfile, time

ROOT = pathlib.Path(__file__).resolve().parent.parent
# Lines of the log of a failed group that are printed.
TAIL = 80
# Seconds that the processes of a group that has ended may take to exit.
PATIENCE = 10
# What the Swift toolchain leaves: empty directories and lock files.
FROM_TOOLCHAIN = r"TemporaryDirectory\.|swift-generated-sources$|_.*\.lock$"
PR_SET_CHILD_SUBREAPER = 36
libc = ctypes.CDLL(None, use_errno=True)


class Group:
    def __init__(self, line, processors, logs):
        words = line.split()
        self.name, share = words[0], words[1]
        self.processors = processors if share == "all" else min(float(share), processors)
        rest = words[2:]
        self.after = rest.pop(0).removeprefix("after=").split(",") if rest[0].startswith("after=") else []
        self.command = " ".join(rest)
        self.log = logs / f"{self.name}.log"

    def start(self, temporary):
        self.temporary = pathlib.Path(temporary, self.name)
        self.temporary.mkdir()
        self.began = time.monotonic()

        def adopt():
            """Makes the group's shell the parent of processes whose own parents exit."""
            libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)

        with open(self.log, "w") as log:
            self.process = subprocess.Popen(
                ["bash", "-c", self.command], cwd=ROOT, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                env={**os.environ, "IMGBROKER_GROUP": self.name, "TMPDIR": str(self.temporary)}, start_new_session=True, preexec_fn=adopt)

    def end(self):
        """Ends the group before its time."""
        for sent, seconds in ((signal.SIGTERM, PATIENCE), (signal.SIGKILL, None)):
            try:
                os.killpg(self.process.pid, sent)
                self.process.wait(seconds)
                return
            except subprocess.TimeoutExpired:
                pass
            except ProcessLookupError:
                return

    def leftovers(self, others):
        """Ends and returns what the group has left. Its orphans are children of this process now, like the `others`."""
        deadline = time.monotonic() + PATIENCE
        while (orphans := children() - others) and time.monotonic() < deadline:
            for pid in orphans:
                os.waitpid(pid, os.WNOHANG)
            time.sleep(0.05)
        found = [f"process {pid}: {command(pid)}" for pid in orphans]
        for pid in orphans:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        found += unmounted(mounts(self.temporary))
        entries = [e for e in self.temporary.iterdir() if not re.match(FROM_TOOLCHAIN, e.name)]
        found += [f"directory {e}{contents(e)}" if e.is_dir() else f"file {e}" for e in entries]
        shutil.rmtree(self.temporary, ignore_errors=True)
        return found


def children():
    """The processes whose parent is this one."""
    return {int(pid) for pid in pathlib.Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()}


def command(pid):
    return pathlib.Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")[:200]


def contents(directory):
    """The names of the first entries of a directory, which tell which test made it."""
    names = sorted(e.name for e in directory.iterdir())
    return f", with {', '.join(names[:20])}" if names else ", empty"


def mounts(directory):
    """The mount points in a directory."""
    points = [line.split()[4] for line in open("/proc/self/mountinfo")]
    return {p for p in points if p.startswith(f"{directory}/")}


def unmounted(points):
    """Unmounts mount points, and returns their names."""
    for point in sorted(points, reverse=True):
        subprocess.run(["umount", "--lazy", point])
    return [f"mount {point}" for point in points]


def minutes(seconds):
    return f"{seconds // 60:.0f}:{seconds % 60:02.0f}"


def run(groups, processors, temporary):
    """Runs the groups; returns whether all passed."""
    terminal = sys.stdout.isatty()
    began, shown, mounted = time.monotonic(), time.monotonic(), mounts(ROOT)
    waiting, running, done, names = list(groups), [], set(), {g.name for g in groups}

    def say(text):
        print(("\r\033[K" if terminal else "") + f"{minutes(time.monotonic() - began):>6}  {text}", flush=True)

    try:
        while waiting or running:
            for group in list(waiting):
                if any(name in names and name not in done for name in group.after):
                    continue
                free = processors - sum(g.processors for g in running)
                if group.processors > free + 0.001:
                    # Smaller groups overtake it, unless it runs alone and would never start.
                    if group.processors == processors:
                        break
                    continue
                waiting.remove(group)
                running.append(group)
                group.start(temporary)
            # Without reaping, so that the processor time is its own.
            ended = [g for g in running if os.waitid(os.P_PID, g.process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)]
            for group in ended:
                _, status, usage = os.wait4(group.process.pid, 0)
                group.process.returncode = os.waitstatus_to_exitcode(status)
                running.remove(group)
                done.add(group.name)
                took, used = time.monotonic() - group.began, usage.ru_utime + usage.ru_stime
                left = group.leftovers({g.process.pid for g in running})
                with open(group.log, "a") as log:
                    log.writelines(f"error: {group.name} left {what}\n" for what in left)
                    log.write(f"{minutes(took)} minutes, {minutes(used)} of processors\n")
                if group.process.returncode == 0 and not left:
                    say(f"✔ {group.name} ({minutes(took)}, {minutes(used)} of processors)")
                    continue
                say(f"✘ {group.name} (exit status {group.process.returncode}, {minutes(took)}), the end of {group.log}:")
                print("".join(open(group.log, errors="replace").readlines()[-TAIL:]))
                return False
            if not ended:
                time.sleep(0.2)
            if time.monotonic() - shown > (1 if terminal else 60):
                shown = time.monotonic()
                line = ", ".join(f"{g.name} {minutes(shown - g.began)}" for g in running)
                line = f"{minutes(shown - began):>6}  {line}; {len(waiting)} to come"
                width = shutil.get_terminal_size().columns - 1
                print(f"\r\033[K{line[:width]}" if terminal else line, end="" if terminal else "\n", flush=True)
        if left := unmounted(mounts(ROOT) - mounted):
            say(f"✘ error: a group left {', '.join(left)}")
            return False
        say(f"All {len(groups)} groups passed.")
        return True
    finally:
        for group in running:
            group.end()
        for group in running:
            group.leftovers(set())
        unmounted(mounts(ROOT) - mounted)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--processors", metavar="N", type=int, default=len(os.sched_getaffinity(0)), help="those of the machine unless given")
    parser.add_argument("--logs", metavar="DIR", type=pathlib.Path, default=pathlib.Path(".build/logs"), help="takes the logs")
    parser.add_argument("table", type=pathlib.Path)
    parser.add_argument("name", nargs="*", help="a group to run")
    options = parser.parse_args()
    lines = [line for line in options.table.read_text().splitlines() if line.strip() and not line.startswith("#")]
    options.logs.mkdir(parents=True, exist_ok=True)
    groups = [Group(line, options.processors, options.logs.resolve()) for line in lines]
    if unknown := set(options.name) - {g.name for g in groups}:
        sys.exit(f"error: no group is named {', '.join(unknown)}; there are: {' '.join(g.name for g in groups)}")
    groups = [g for g in groups if g.name in options.name or not options.name]
    libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda number, _: sys.exit(128 + number))
    # Short, because sockets are in it, whose paths may have 107 bytes; readable, because tests have other users.
    with tempfile.TemporaryDirectory(prefix="ib-", dir="/tmp", ignore_cleanup_errors=True) as temporary:
        os.chmod(temporary, 0o755)
        sys.exit(0 if run(groups, options.processors, temporary) else 1)


main()
