"""An origin and a broker for comparisons with other programs."""

import http.server
import os
import pathlib
import socket
import subprocess
import threading
import time

PROGRAM = pathlib.Path(os.environ["IMGBROKER_TEST_PRODUCTS"]) / "imgbroker"


class Setting:
    """An origin with files, by name, and a broker."""

    def __init__(self, folder, files):

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                self.send_response(200)
                self.send_header("Content-Length", str(len(files[self.path[1:]])))
                self.send_header("Cache-Control", "max-age=600")
                self.end_headers()
                self.wfile.write(files[self.path[1:]])

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.folder, self.socket = folder, f"{folder}/socket"
        # A cache of its own: the usual one may have results of an earlier build.
        self.broker = subprocess.Popen(
            [PROGRAM, "--socket", self.socket, "--allow-address", "127.0.0.0/8", "--cache-dir", f"{folder}/cache"])
        deadline = time.monotonic() + 30
        while True:
            with socket.socket(socket.AF_UNIX) as probe:
                if probe.connect_ex(self.socket) == 0:
                    return
            if time.monotonic() > deadline or self.broker.poll() is not None:
                self.stop()
                raise TimeoutError("the broker does not listen")
            time.sleep(0.02)

    def get(self, name, *options):
        """Loads a file as PNG, and returns its path. Raises `CalledProcessError` for an image that fails."""
        path, url = f"{self.folder}/result.png", f"http://127.0.0.1:{self.server.server_port}/{name}"
        words = [PROGRAM, "get", url, "--socket", self.socket, "-o", path, *options]
        subprocess.run(words, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        return path

    def stop(self):
        """Ends both."""
        self.broker.terminate()
        self.broker.wait(30)
        self.server.shutdown()
