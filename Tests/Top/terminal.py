"""`imgbroker ctl top` in a terminal of tmux: figures under load, resizes, keys, a restart of the broker, and the terminal afterwards."""

import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "Exporter"))
from screen import Screen  # noqa: E402
from setting import PRODUCTS, Setting, check  # noqa: E402


def requests(screen):
    """Returns the number of requests that the view shows; -1 while it is not drawn."""
    found = re.search(r"^Requests +(\d+)", screen.text(), re.M)
    return int(found[1]) if found else -1


def still_requests(screen):
    """Returns the number of requests when two captures show the same: a frame comes in pieces."""
    shown = [-1]

    def is_still():
        shown.append(requests(screen))
        return shown[-1] >= 0 and shown[-1] == shown[-2]

    screen.wait("the figures stand still", is_still)
    return shown[-1]


def is_drawn(screen, columns, rows):
    """Whether the view fills a window of this size."""
    lines = screen.lines()
    return (len(lines) == rows and lines[0].startswith("imgbroker up") and len(lines[0]) == columns and lines[-1].startswith("q quit")
            and all(len(line) <= columns for line in lines) and (int(screen.state("window_width")) == columns))


class Terminal:
    """What the shell's terminal is like before the view, and has to be like afterwards."""

    def __init__(self, screen, folder):
        self.screen, self.file = screen, f"{folder}/modes"
        screen.run("echo before")
        screen.wait("the shell answers", lambda: "\nbefore" in screen.text())
        self.modes = self.read()

    def read(self):
        if os.path.exists(self.file):
            os.remove(self.file)
        self.screen.run(f"stty -g > {self.file}")
        return self.screen.wait("stty answers", lambda: os.path.exists(self.file) and pathlib.Path(self.file).read_text())

    def check_restored(self, after):
        screen = self.screen
        screen.wait("the prompt is back", lambda: screen.lines()[-1].startswith("shell$") or "shell$" in screen.text())
        screen.wait("the screen is the shell's", lambda: screen.state("alternate_on") == "0")
        check(screen.state("cursor_flag") == "1" and screen.state("wrap_flag") == "1", f"cursor and wrapping are back after {after}")
        check(self.read() == self.modes, f"the terminal's modes are as before after {after}")


def start(screen, setting, options=""):
    screen.run(f"{PRODUCTS}/imgbroker ctl top --socket {setting.socket} {options}")
    screen.wait("the view is shown", lambda: screen.state("alternate_on") == "1" and requests(screen) >= 0)


def check_figures(screen, setting):
    screen.wait("the view fills 80 × 24", lambda: is_drawn(screen, 80, 24))
    check(True, "the view fills 80 × 24")
    first = requests(screen)
    screen.wait("the figures change under load", lambda: requests(screen) > first)
    check(True, "the figures change under load")
    for table in ("STAGE", "WORKER", "SLOWEST ORIGINS", "USERS"):
        check(any(line.startswith(table) for line in screen.lines()), f"{table} is shown")
    screen.wait("origins and users are listed", lambda: ".example" in screen.text() and "%" in screen.lines()[-2])
    screen.wait("rates are those of the last seconds", lambda: re.search(r"last \d+ s", screen.text()))
    os.kill(setting.workers()[0], signal.SIGKILL)
    screen.wait("a death has its cause", lambda: re.search(r"^Deaths +outside 1  last: decode", screen.text(), re.M))
    check("31m" in screen.text("-e"), "a death is red")


def check_sizes(screen):
    for columns, rows in ((120, 40), (40, 10), (200, 50), (80, 24)):
        screen.resize(columns, rows)
        screen.wait(f"the view fills {columns} × {rows}", lambda: is_drawn(screen, columns, rows))
        check(True, f"the view fills {columns} × {rows}")


def check_keys(screen, setting):
    screen.type("p")
    screen.wait("the view is paused", lambda: "PAUSED" in screen.lines()[0])
    shown = still_requests(screen)
    more = setting.stats()["requests"] + 100
    screen.wait("the broker goes on", lambda: setting.stats()["requests"] > more)
    check(still_requests(screen) == shown, "the figures stand still while the view is paused")
    screen.resize(100, 30)
    screen.wait("a paused view fills the window", lambda: is_drawn(screen, 100, 30))
    check(still_requests(screen) == shown, "they do so after a resize")
    screen.resize(80, 24)
    screen.type("Space")
    screen.wait("the view goes on", lambda: "PAUSED" not in screen.text() and requests(screen) > more)
    check(True, "the view goes on")
    for key, order in (("s", "time"), ("Right", "requests"), ("Left", "time"), ("S", "mean")):
        screen.type(key)
        screen.wait(f"{key} orders by {order}", lambda: f"sort: {order}" in screen.lines()[-1])
    check(True, "s and the arrows change the order")
    screen.type("+")
    screen.wait("+ makes the interval longer", lambda: "every 2 s" in screen.lines()[0])
    screen.type("-")
    screen.wait("- makes it shorter", lambda: "every 1 s" in screen.lines()[0])
    screen.type("h")
    screen.wait("h shows the keys", lambda: "this help" in screen.text())
    screen.type("Escape")
    screen.wait("Escape hides them", lambda: "this help" not in screen.text())
    check(True, "the other keys work")


def check_stop(screen, terminal):
    screen.type("C-z")
    screen.wait("the view is stopped", lambda: "Stopped" in screen.text())
    terminal.check_restored("Ctrl-Z")
    screen.run("fg")
    screen.wait("the view is back", lambda: screen.state("alternate_on") == "1" and is_drawn(screen, 80, 24))
    check(True, "the view is back after fg")


def check_restart(screen, setting):
    former = screen.wait("the figures are shown", lambda: max(0, requests(screen)))
    setting.stop_broker()
    screen.wait("the view misses the broker", lambda: "RECONNECTING" in screen.lines()[0])
    screen.wait("the view tells why", lambda: "no broker answers" in screen.text())
    check(True, "the view tells why")
    screen.resize(90, 26)
    screen.wait("a view without a broker fills the window", lambda: is_drawn(screen, 90, 26))
    screen.resize(80, 24)
    setting.start_broker()
    screen.wait("the view finds the broker again", lambda: "RECONNECTING" not in screen.text() and is_drawn(screen, 80, 24))
    screen.wait("the figures are those of the new broker", lambda: 0 <= requests(screen) < former)
    first = still_requests(screen)
    setting.start_load(600)
    screen.wait("the figures go on", lambda: requests(screen) > first)
    check(True, "the figures of a new broker are shown")


def check_ends(screen, setting, terminal):
    for key in ("q", "C-c"):
        screen.type(key)
        terminal.check_restored(key)
        check("\nbefore" in screen.text(), "the shell's lines are still there")
        start(screen, setting)
    for number in (signal.SIGTERM, signal.SIGHUP):
        shell = screen.state("pane_pid")
        children = pathlib.Path(f"/proc/{shell}/task/{shell}/children").read_text().split()
        check(len(children) == 1, "the view is the shell's only child")
        os.kill(int(children[0]), number)
        terminal.check_restored(number.name)
        start(screen, setting)
    screen.type("q")
    terminal.check_restored("q")


def check_plain(setting, folder):
    for environment in ({"NO_COLOR": "1"}, {"LC_ALL": "C"}):
        screen = Screen(80, 24, **environment)
        try:
            start(screen, setting)
            if "NO_COLOR" in environment:
                os.kill(setting.workers()[0], signal.SIGKILL)
                screen.wait("a death has its cause", lambda: re.search(r"^Deaths +outside", screen.text(), re.M))
                check(not re.search(r"\x1b\[[0-9;]*3[0-7]", screen.text("-e")), "NO_COLOR: no colours")
            else:
                check(screen.text().isascii(), "without UTF-8: ASCII only")
        finally:
            screen.close()
    words = [PRODUCTS / "imgbroker", "ctl", "top", "--socket", setting.socket]
    piped = subprocess.run(words, capture_output=True, check=True, timeout=30).stdout
    check(b"\x1b" not in piped and b"Requests" in piped, "without a terminal: one frame without control sequences")


def main():
    with tempfile.TemporaryDirectory() as folder:
        setting, screen = Setting(folder), None
        try:
            setting.start_broker()
            # Until its broker ends.
            setting.start_load(600)
            screen = Screen(80, 24)
            terminal = Terminal(screen, folder)
            start(screen, setting)
            check_figures(screen, setting)
            check_sizes(screen)
            check_keys(screen, setting)
            check_stop(screen, terminal)
            check_restart(screen, setting)
            check_ends(screen, setting, terminal)
            check_plain(setting, folder)
        finally:
            if screen:
                screen.close()
            setting.stop()


main()
