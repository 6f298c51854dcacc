"""Images as headless Chromium draws them."""

import base64
import json
import os
import pathlib
import re
import subprocess

from PIL import Image


def browser(folder, sources, sizes=None):
    """Returns the images that Chromium draws, straight alpha, by name; None for those that it does not draw.

    `sources` are types and data by name. An image has its natural size, or the one that `sizes` has for it.
    """
    page = pathlib.Path(folder) / "page.html"
    urls = {name: f"data:image/{kind};base64,{base64.b64encode(data).decode()}" for name, (kind, data) in sources.items()}
    page.write_text(f"""<!DOCTYPE html><pre id=out>waiting</pre><script>
const sources = {json.dumps(urls)}
const sizes = {json.dumps(sizes or {})}
function load(source) {{
  return new Promise(done => {{
    const image = new Image()
    image.onload = () => done(image)
    image.onerror = () => done(null)
    image.src = source
  }})
}}
async function run() {{
  const lines = []
  for (const name in sources) {{
    const image = await load(sources[name])
    if (!image || !image.naturalWidth) {{ lines.push(name + ' 0 0 none'); continue }}
    const canvas = document.createElement('canvas')
    const size = sizes[name] || [image.naturalWidth, image.naturalHeight]
    canvas.width = size[0]; canvas.height = size[1]
    const context = canvas.getContext('2d', {{willReadFrequently: true}})
    context.drawImage(image, 0, 0, ...size)
    const data = context.getImageData(0, 0, canvas.width, canvas.height).data
    let text = ''
    for (let i = 0; i < data.length; i += 30000) text += String.fromCharCode(...data.subarray(i, i + 30000))
    lines.push([name, canvas.width, canvas.height, btoa(text)].join(' '))
  }}
  document.getElementById('out').textContent = lines.join('\\n') + '\\nend'
}}
run()
</script>""")
    results = {}
    for line in written_lines(page, folder):
        name, width, height, data = line.rsplit(" ", 3)
        size = (int(width), int(height))
        results[name] = None if data == "none" else Image.frombytes("RGBA", size, base64.b64decode(data))
    return results


def written_lines(page, folder):
    """Returns the lines that the script of a page writes into its element `pre` before the line "end"."""
    words = [
        "chromium", "--headless", "--no-sandbox", "--disable-gpu", "--force-color-profile=srgb", f"--user-data-dir={folder}/profile",
        "--virtual-time-budget=60000", "--dump-dom", f"file://{page}"]
    # It leaves temporary files.
    text = subprocess.run(
        words, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=600,
        env={**os.environ, "TMPDIR": str(folder)}).stdout.decode()
    lines = re.search(r"<pre[^>]*>(.*)</pre>", text, re.DOTALL).group(1).split("\n")
    assert lines[-1].strip() == "end", text[:300]
    return lines[:-1]
