// A gallery of images from URLs and files. usage: gjs -m gallery.js [URL|FILE]...

import Gtk from 'gi://Gtk?version=4.0';
import ImgbrokerGtk from 'gi://ImgbrokerGtk?version=4.0';
import {programArgs} from 'system';

const factory = new Gtk.SignalListItemFactory();

// The grid uses a tile for one image after another.
factory.connect('setup', (_, item) => {
    item.child = new ImgbrokerGtk.Picture({
        width_request: 220,
        height_request: 165,
        content_fit: Gtk.ContentFit.COVER,
        placeholder_icon_name: 'image-x-generic-symbolic',
        transition: ImgbrokerGtk.Transition.CROSSFADE,
    });
});

// Shows an image in a tile. The request for the one before is cancelled.
factory.connect('bind', (_, item) => {
    item.child.uri = item.item.string;
    item.child.alternative_text = item.item.string;
});

const application = new Gtk.Application({application_id: 'org.imgbroker.Gallery'});

application.connect('activate', () => {
    const sources = new Gtk.NoSelection({model: Gtk.StringList.new(programArgs)});
    const grid = new Gtk.GridView({model: sources, factory, max_columns: 12});
    const window = new Gtk.ApplicationWindow({application, title: 'Gallery', default_width: 1040, default_height: 720});
    window.child = new Gtk.ScrolledWindow({child: grid});
    window.present();
});

application.run([]);
