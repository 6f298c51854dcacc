"""Images as headless Chromium draws them."""

import base64
import contextlib
import json

from PIL import Image

from browser import Browser

FUNCTION = """async (source, size, filter) => {
  const image = new Image()
  const isLoaded = await new Promise(done => {
    image.onload = () => done(true)
    image.onerror = () => done(false)
    image.src = source
  })
  if (!isLoaded || !image.naturalWidth) return null
  const canvas = document.createElement('canvas');
  [canvas.width, canvas.height] = size || [image.naturalWidth, image.naturalHeight]
  const context = canvas.getContext('2d', {willReadFrequently: true})
  context.filter = filter
  context.drawImage(image, 0, 0, canvas.width, canvas.height)
  const data = context.getImageData(0, 0, canvas.width, canvas.height).data
  let text = ''
  for (let i = 0; i < data.length; i += 30000) text += String.fromCharCode(...data.subarray(i, i + 30000))
  return [canvas.width, canvas.height, btoa(text)]
}"""


def drawn(browser, kind, data, size=None, function="none"):
    """Returns an image as it is drawn, straight alpha; None if it is not.

    The image has its natural size, or another. `function` is a CSS filter function.
    """
    source = f"data:image/{kind};base64,{base64.b64encode(data).decode()}"
    result = browser.value(f"({FUNCTION})(...{json.dumps([source, size, function])})")
    if result:
        width, height, pixels = result
        return Image.frombytes("RGBA", (width, height), base64.b64decode(pixels))


def all_drawn(sources, sizes=None):
    """Returns images as a new browser draws them, by name. `sources` are types and data, and `sizes` the sizes of some, by name."""
    with contextlib.closing(Browser()) as browser:
        return {name: drawn(browser, kind, data, (sizes or {}).get(name)) for name, (kind, data) in sources.items()}
