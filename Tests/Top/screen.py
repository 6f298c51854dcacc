"""A shell in a terminal of tmux."""

import os
import subprocess
import tempfile
import time


class Screen:
    """A window of tmux with a shell; the tmux server is its own."""

    def __init__(self, columns, rows, **environment):
        self.folder = tempfile.TemporaryDirectory()
        self.base = ["tmux", "-u", "-f", "/dev/null", "-S", f"{self.folder.name}/tmux"]
        words = {**os.environ, "LC_ALL": "C.UTF-8", "HISTFILE": "", **environment}
        words.pop("TMUX", None)
        if "NO_COLOR" not in environment:
            words.pop("NO_COLOR", None)
        shell = "exec env PS1='shell$ ' bash --norc --noprofile"
        subprocess.run([*self.base, "new-session", "-d", "-x", str(columns), "-y", str(rows), shell], env=words, check=True)
        self.command("set-option", "-g", "window-size", "manual")
        self.command("resize-window", "-x", str(columns), "-y", str(rows))
        self.wait("a prompt", lambda: "shell$" in self.text())

    def command(self, *words):
        return subprocess.run([*self.base, *words], check=True, capture_output=True, text=True).stdout

    def lines(self, *options):
        """Returns the lines of the window, as many as it has."""
        return self.command("capture-pane", "-p", *options).split("\n")[:-1]

    def text(self, *options):
        return "\n".join(self.lines(*options))

    def state(self, name):
        """Returns a variable of tmux, such as alternate_on."""
        return self.command("display-message", "-p", "#{" + name + "}").strip()

    def type(self, *keys):
        """Presses keys: characters, or tmux's names of keys (Enter, C-c, Left)."""
        self.command("send-keys", *keys)

    def run(self, line):
        self.command("send-keys", "-l", line)
        self.type("Enter")

    def resize(self, columns, rows):
        self.command("resize-window", "-x", str(columns), "-y", str(rows))

    def wait(self, what, condition, seconds=30):
        """Waits until a condition holds, and returns its value."""
        deadline = time.monotonic() + seconds
        while True:
            value = condition()
            if value:
                return value
            if time.monotonic() > deadline:
                raise AssertionError(f"not within {seconds} s: {what}\n" + self.text())
            time.sleep(0.05)

    def close(self):
        subprocess.run([*self.base, "kill-server"], capture_output=True)
        self.folder.cleanup()
