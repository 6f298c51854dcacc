"""A program that shows images of others at a small size: a web application with previews, or a file manager with thumbnails.

doors_peer.py previews SOURCE FOLDER COUNT FIRST STEP
    says "ready"; for each line SIDE makes previews of FOLDER/FIRST, FOLDER/FIRST+STEP ... below COUNT, one after the other, as
    JPEG within SIDE pixels, and says "done". SOURCE is "libvips", or the Unix socket of imgbroker http, which gets each file as
    Nextcloud sends it.
doors_peer.py thumbnails PROGRAM FOLDER COUNT
    on a session bus without a thumbnail service: starts PROGRAM, says "ready"; for each line FLAVOR queues FOLDER/0 ...
    FOLDER/COUNT-1, and says "done" when all are ready.
"""
import http.client
import json
import pathlib
import socket
import subprocess
import sys
import urllib.parse


def with_libvips():
    import pyvips

    pyvips.cache_set_max(0)
    return lambda data, side: pyvips.Image.thumbnail_buffer(data, side, height=side, size="down").jpegsave_buffer(Q=80, strip=True)


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("localhost")
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(self.path)


def over_http(path):
    def preview(data, side):
        fit = {"width": side, "height": side, "stripmeta": "true", "type": "jpeg", "norotation": "true", "quality": "80"}
        operations = json.dumps([{"operation": "autorotate"}, {"operation": "fit", "params": fit}])
        connection = UnixConnection(path)
        connection.request("POST", "/pipeline?" + urllib.parse.urlencode({"operations": operations}), data)
        answer = connection.getresponse()
        image = answer.read()
        connection.close()
        if answer.status != 200:
            raise RuntimeError(image)
        return image

    return preview


def previews(source, folder, count, first, step):
    preview = with_libvips() if source == "libvips" else over_http(source)
    print("ready", flush=True)
    for line in sys.stdin:
        for number in range(int(first), int(count), int(step)):
            if preview(pathlib.Path(folder, str(number)).read_bytes(), int(line))[:2] != b"\xff\xd8":
                raise RuntimeError("no JPEG")
        print("done", flush=True)


def thumbnails(program, folder, count):
    from gi.repository import Gio, GLib

    name, path = "org.freedesktop.thumbnails.Thumbnailer1", "/org/freedesktop/thumbnails/Thumbnailer1"
    uris = [pathlib.Path(folder, str(number)).as_uri() for number in range(int(count))]
    bus, loop, ready = Gio.bus_get_sync(Gio.BusType.SESSION), GLib.MainLoop(), set()

    def take(connection, sender, path, interface, signal, values):
        if signal == "Ready":
            ready.update(values[1])
        elif signal == "Finished":
            loop.quit()

    bus.signal_subscribe(None, name, None, path, None, Gio.DBusSignalFlags.NONE, take)
    service = subprocess.Popen([program], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    watch = Gio.bus_watch_name_on_connection(bus, name, Gio.BusNameWatcherFlags.NONE, lambda *_: loop.quit(), None)
    loop.run()
    Gio.bus_unwatch_name(watch)
    print("ready", flush=True)
    for line in sys.stdin:
        ready.clear()
        order = GLib.Variant("(asasssu)", (uris, ["image/jpeg"] * len(uris), line.strip(), "default", 0))
        bus.call_sync(name, path, name, "Queue", order, None, Gio.DBusCallFlags.NONE, -1, None)
        loop.run()
        if len(ready) != len(uris):
            raise RuntimeError(f"{len(ready)} thumbnails")
        print("done", flush=True)
    service.terminate()
    service.wait()


{"previews": previews, "thumbnails": thumbnails}[sys.argv[1]](*sys.argv[2:])
