"""The exporter's pages under load: the metrics for promtool, the dashboard in headless Chromium.

Screenshots go to the folder OUTPUT: light and dark, wide and narrow.
"""

import json
import os
import pathlib
import signal
import subprocess
import tempfile
import time

from browser import Browser
from setting import Setting, check, wait_until

OUTPUT = pathlib.Path(os.environ["OUTPUT"])
SECONDS = int(os.environ.get("SECONDS_OF_LOAD", "25"))


def check_metrics(setting):
    status, text = setting.read("metrics")
    check(status == 200 and "imgbroker_up 1" in text, "metrics of a broker that serves")
    tool = subprocess.run([os.environ["PROMTOOL"], "check", "metrics"], input=text.encode(), capture_output=True)
    check(tool.returncode == 0 and not tool.stderr.strip(), f"promtool accepts the metrics {tool.stderr.decode()}")
    (OUTPUT / "metrics.txt").write_text(text)
    check(".example" not in text, "no metric has a host")


def check_page(browser, setting):
    browser.appear(1440, 900, "light")
    browser.open(setting.url)
    browser.wait("Number(document.body?.dataset.samples) >= 4")
    first = browser.value("document.getElementById('tiles').textContent")
    browser.wait(f"document.getElementById('tiles').textContent !== {json.dumps(first)}")
    check(True, "the tiles change under load")
    browser.wait(f"Number(document.body?.dataset.samples) >= {SECONDS}", SECONDS + 30)
    check(browser.value("document.querySelectorAll('path.series').length") >= 10, "the charts have lines")
    check("archive.example" in browser.value("document.getElementById('findings').textContent"), "the slowest origin is named")
    if os.geteuid() == 0:
        # On a busy machine another user than the one with most requests may have most work.
        first, works = browser.value("""[document.querySelector('#users tbody th').textContent,
          Object.fromEntries(samples[samples.length - 1].stats.users.map((user) => ["uid " + user.uid, work([user])]))]""")
        check({"uid 1000", "uid 1001", "uid 1002"} <= set(works), "all users are listed")
        # Both parts of the work are rounded.
        check(works[first] >= max(works.values()) - 2, "the user with most work is first")
    check("killed from outside" in browser.value("document.getElementById('deaths').textContent"), "deaths have their cause")
    check(browser.value("document.querySelectorAll('#failures tbody tr').length") >= 3, "failures are listed by code")
    tiers = browser.value("document.getElementById('tiers').textContent")
    check(all("shared " + server.name in tiers for server in setting.shared), "the servers of the shared tier are listed")
    check(setting.stats()["sharedHits"] > 0, "images of the shared tier are shown")
    browser.wait("document.getElementById('workers').textContent.includes('decode-svg ')")
    check(True, "workers of a family of formats are listed")
    browser.wait("[...document.querySelectorAll('#thumbnails img')].filter((i) => i.complete && i.naturalWidth > 0).length >= 8")
    check(True, "thumbnails are shown")


def check_descriptors(browser):
    finding = browser.value("""(() => {
      const later = structuredClone(samples[samples.length - 1]);
      for (const name of ["evictions", "descriptorEvictions"]) later.stats[name] += 1e6;
      samples.push(later);
      try { return memoryFinding().join(" "); } finally { samples.pop(); }
    })()""")
    check(finding.startswith("bad Descriptors") and "LimitNOFILE=" in finding, f"too few descriptors are a finding: {finding}")


def check_keyboard(browser):
    browser.value("document.querySelector('.plot').focus()")
    browser.press("ArrowLeft")
    browser.press("ArrowLeft")
    label = browser.value("document.querySelector('figure output').getAttribute('aria-label')")
    check(label and "memory hits" in label, f"arrow keys read a chart: {label}")
    browser.press("Tab")
    check(browser.value("document.activeElement.tagName") == "SUMMARY", "Tab leads to the table of a chart")
    browser.press("Enter")
    browser.value("document.activeElement.click()") if not browser.value("document.activeElement.parentElement.open") else None
    browser.wait("document.querySelectorAll('figure table tbody tr').length > 3")
    check(True, "the chart's data are a table, too")
    browser.value("document.querySelector('figure details').open = false; document.activeElement.blur()")


def check_looks(browser):
    for width, height, name in ((1440, 900, "wide"), (390, 844, "narrow")):
        for scheme in ("light", "dark"):
            browser.appear(width, height, scheme)
            time.sleep(0.5)
            over = browser.value("document.documentElement.scrollWidth - innerWidth")
            check(over <= 0, f"{scheme} {name}: nothing is beyond the right edge ({over})")
            back = browser.value("getComputedStyle(document.body).backgroundColor")
            dark = sum(int(part) for part in back[4:-1].split(",")) < 200
            check(dark == (scheme == "dark"), f"{scheme} {name}: the colours of the scheme")
            browser.screenshot(OUTPUT / f"dashboard-{scheme}-{name}.png")


def check_shared_tier(browser, setting):
    lost = setting.shared[0]
    lost.kill()
    browser.wait(f"document.getElementById('findings').textContent.includes('do not answer: {lost.name}.')")
    check(True, "a lost server of the shared tier is a finding")


def check_absence(browser, setting):
    browser.appear(1440, 900, "light")
    setting.stop_broker()
    browser.wait("document.getElementById('state').textContent === 'Not answering'")
    status, text = setting.read("metrics")
    check(status == 200 and text.endswith("imgbroker_up 0\n"), "imgbroker_up is 0 without a broker")
    status, text = setting.read("health")
    check(status == 503 and len(text.splitlines()) == 1, f"health: {text.strip()}")
    setting.start_broker()
    browser.wait("document.getElementById('state').textContent === 'Serving'")
    wait_until(lambda: setting.read("health") == (200, "ok\n"), setting.exporter, lambda: "the health check does not")
    check(True, "page and health check find the broker again")


def main():
    OUTPUT.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        setting, browser = Setting(folder), None
        try:
            setting.start_shared_servers(2)
            setting.fill_shared_servers()
            setting.start_broker()
            setting.start_exporter("--thumbnails")
            # Until the end.
            setting.start_load(600)
            browser = Browser()
            wait_until(setting.workers, setting.broker, lambda: "no worker is started")
            os.kill(setting.workers()[0], signal.SIGKILL)
            check_page(browser, setting)
            check_metrics(setting)
            check_descriptors(browser)
            check_keyboard(browser)
            check_looks(browser)
            check(browser.problems == [], f"the browser reports no error: {browser.problems}")
            check_shared_tier(browser, setting)
            check_absence(browser, setting)
        finally:
            if browser:
                browser.close()
            setting.stop()
    print(f"screenshots: {OUTPUT}")


main()
