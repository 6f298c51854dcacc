"""A gallery of images from URLs and files. usage: gallery.py [URL|FILE]..."""

import sys

import gi

gi.require_version("Gtk", "4.0")
gi.require_version("ImgbrokerGtk", "4.0")
from gi.repository import Gtk, ImgbrokerGtk  # noqa: E402


def create(factory, item):
    """Creates the picture of a tile, which the grid uses for one image after another."""
    item.set_child(ImgbrokerGtk.Picture(
        width_request=220, height_request=165, content_fit=Gtk.ContentFit.COVER,
        placeholder_icon_name="image-x-generic-symbolic", transition=ImgbrokerGtk.Transition.CROSSFADE))


def bind(factory, item):
    """Shows an image in a tile. The request for the one before is cancelled."""
    picture = item.get_child()
    picture.set_uri(item.get_item().get_string())
    picture.props.alternative_text = picture.props.uri


def activate(application):
    """Opens the window."""
    factory = Gtk.SignalListItemFactory()
    factory.connect("setup", create)
    factory.connect("bind", bind)
    sources = Gtk.NoSelection(model=Gtk.StringList.new(sys.argv[1:]))
    grid = Gtk.GridView(model=sources, factory=factory, max_columns=12)
    window = Gtk.ApplicationWindow(application=application, title="Gallery", default_width=1040, default_height=720)
    window.set_child(Gtk.ScrolledWindow(child=grid))
    window.present()


application = Gtk.Application(application_id="org.imgbroker.Gallery")
application.connect("activate", activate)
application.run()
