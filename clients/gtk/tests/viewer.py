"""A program of the tests: executes the lines of its input in the main loop of GTK, each a JSON string, and prints their `result`."""

import json
import sys

import gi

gi.require_version("Gdk", "4.0")
gi.require_version("Graphene", "1.0")
gi.require_version("Gtk", "4.0")
gi.require_version("ImgbrokerGtk", "4.0")
from gi.repository import Gdk, Gio, GLib, Graphene, Gtk, ImgbrokerGtk  # noqa: E402

STRIPE = 40


def color_of(number):
    """The colour of the image with a number below 5,000."""
    return (number % 16 * 12 + 20, number // 16 % 16 * 12 + 20, number // 256 * 9 + 20)


class Stripe(Gtk.Widget):
    """Shows the colour that the image beside it must have."""

    color = Gdk.RGBA()

    def do_snapshot(self, snapshot):
        rectangle = Graphene.Rect().init(0, 0, self.get_width(), self.get_height())
        snapshot.append_color(self.color, rectangle)


class Viewer:
    """The window and what the tests ask of it."""

    def __init__(self, application):
        self.window = Gtk.ApplicationWindow(application=application, decorated=False, default_width=400, default_height=600)
        self.requested = []
        self.textures = 0

    def show(self, **properties):
        """Shows a picture alone."""
        self.picture = ImgbrokerGtk.Picture(**properties)
        self.states = []
        self.picture.connect("notify::state", lambda picture, _: self.states.append(picture.props.state.value_nick))
        self.picture.connect("notify::texture", self.count_texture)
        self.box = Gtk.Box()
        self.picture.set_hexpand(True)
        self.box.append(self.picture)
        self.window.set_child(self.box)
        self.window.present()

    def count_texture(self, picture, _):
        """Notes the number in the colour of a texture."""
        self.textures += 1
        texture = picture.props.texture
        if texture is not None:
            self.last_size = (texture.get_width(), texture.get_height())

    def show_list(self, url, count, height):
        """Shows a list of rows with images of URLs that contain their numbers."""
        factory = Gtk.SignalListItemFactory()

        def setup(_, item):
            box = Gtk.Box()
            stripe = Stripe(width_request=STRIPE, height_request=height)
            picture = ImgbrokerGtk.Picture(height_request=height, hexpand=True, content_fit=Gtk.ContentFit.COVER)
            picture.connect("notify::state", self.note_request)
            box.append(stripe)
            box.append(picture)
            item.set_child(box)

        def bind(_, item):
            number = int(item.get_item().get_string())
            stripe = item.get_child().get_first_child()
            stripe.color = Gdk.RGBA()
            stripe.color.parse("rgb(%d,%d,%d)" % color_of(number))
            stripe.queue_draw()
            stripe.get_next_sibling().set_uri(url % number)

        factory.connect("setup", setup)
        factory.connect("bind", bind)
        model = Gtk.NoSelection(model=Gtk.StringList.new([str(number) for number in range(count)]))
        self.scrolled = Gtk.ScrolledWindow(child=Gtk.ListView(model=model, factory=factory))
        self.window.set_child(self.scrolled)
        self.window.present()

    def note_request(self, picture, _):
        """Notes the number of a row whose image is requested."""
        if picture.props.state == ImgbrokerGtk.State.LOADING:
            self.requested.append(int(picture.props.uri.rpartition("/")[2]))

    def scroll(self, step):
        """Scrolls by a number of pixels a frame until the end."""
        adjustment = self.scrolled.get_vadjustment()
        self.is_scrolling = True

        def advance(widget, clock):
            adjustment.set_value(adjustment.get_value() + step)
            self.is_scrolling = adjustment.get_value() < adjustment.get_upper() - adjustment.get_page_size()
            return self.is_scrolling

        self.scrolled.add_tick_callback(advance)


def main():
    application = Gtk.Application(application_id="org.imgbroker.Viewer", flags=Gio.ApplicationFlags.NON_UNIQUE)
    channel = GLib.IOChannel.unix_new(0)

    def activate(application):
        names = {"viewer": Viewer(application), "Gtk": Gtk, "Gdk": Gdk, "Gio": Gio, "GLib": GLib, "ImgbrokerGtk": ImgbrokerGtk,
                 "color_of": color_of}

        def execute(channel, condition):
            line = sys.stdin.readline()
            if not line:
                application.quit()
                return False
            exec(json.loads(line), names)
            print(json.dumps(names.pop("result", None)), flush=True)
            return True

        GLib.io_add_watch(channel, GLib.PRIORITY_DEFAULT, GLib.IOCondition.IN | GLib.IOCondition.HUP, execute)
        application.hold()

    application.connect("activate", activate)
    application.run([])


if __name__ == "__main__":
    main()
