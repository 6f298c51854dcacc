"""What comparisons of pictures have in common: files, pixels, and a sheet."""

import io
import pathlib

import numpy
from PIL import Image, ImageDraw


def saved(image, kind, **options):
    """Returns an image as a file of Pillow's."""
    file = io.BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


def multiplied(image):
    """Returns channels 0 ... 255 with multiplied colour."""
    pixels = numpy.asarray(image.convert("RGBA")).astype(float)
    pixels[..., :3] *= pixels[..., 3:] / 255
    return pixels


class Sheet:
    """Cells with a caption and several pictures beside each other."""

    def __init__(self, columns, places, size):
        self.columns, self.size, self.cells = columns, size, []
        self.cell = places * (size[0] + 4) + 8, size[1] + 32

    def add(self, caption, *pictures, is_wrong=False):
        """Adds a cell; None as a picture is one that there is not."""
        cell = Image.new("RGB", self.cell, (255, 210, 210) if is_wrong else (255, 255, 255))
        ImageDraw.Draw(cell).text((4, 2), caption, fill=(0, 0, 0), spacing=2)
        width, height = self.size
        for place, picture in enumerate(pictures):
            board = Image.new("RGB", self.size, (255, 255, 255))
            squares = ImageDraw.Draw(board)
            for y in range(0, height, 8):
                for x in range(y // 8 % 2 * 8, width, 16):
                    squares.rectangle((x, y, x + 7, y + 7), fill=(205, 205, 205))
            if picture is None:
                squares.text((6, 6), "no image", fill=(170, 0, 0))
            else:
                shown = picture.copy()
                shown.thumbnail(self.size)
                board.paste(shown, (0, 0), shown)
            cell.paste(board, (4 + place * (width + 4), 28))
        self.cells.append(cell)

    def save(self, path):
        width, height = self.cell
        rows = -(-len(self.cells) // self.columns)
        sheet = Image.new("RGB", (self.columns * width, rows * height), (255, 255, 255))
        for index, cell in enumerate(self.cells):
            sheet.paste(cell, (index % self.columns * width, index // self.columns * height))
        pathlib.Path(path).parent.mkdir(parents=True, exist_ok=True)
        sheet.save(path)
