"""A scripted load with hits, loads, failures, dead workers, evictions, images of other brokers and of all families of codecs; then `stats`, `ctl top`, the metrics and the dashboard must
have the same figures, and those that the clients counted themselves."""

import collections
import json
import os
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time

from browser import Browser
from samples import SAMPLES
from setting import PRODUCTS, Setting, check, wait_until


def equal(got, expected, what):
    if got != expected:
        raise AssertionError(f"{what}: {got}, not {expected}")


RESULTS = {"memory": "memoryHits", "disk": "diskHits", "network": "networkLoads", "shared": "sharedHits"}


class User:
    """A client that counts its answers. It runs as its user, in a process of its own, if this is root."""

    def __init__(self, path, uid):
        self.path, self.uid = path, uid

    def load(self, requests):
        """Sends requests one after the other; returns how often each outcome came, and each error."""
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            status = 1
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            try:
                os.write(writing, json.dumps(self.run(requests)).encode())
                status = 0
            finally:
                os._exit(status)
        os.close(writing)
        with os.fdopen(reading, "rb") as file:
            text = file.read()
        equal(os.waitpid(child, 0)[1], 0, f"the client of uid {self.uid}")
        outcomes, errors = json.loads(text)
        return collections.Counter(outcomes), collections.Counter(errors)

    def run(self, requests):
        if os.geteuid() == 0:
            os.setgid(self.uid)
            os.setuid(self.uid)
        connection = socket.socket(socket.AF_UNIX)
        connection.connect(self.path)
        outcomes, errors = collections.Counter(), collections.Counter()
        for number, request in enumerate(requests):
            data = json.dumps({"type": "get", "id": number, "delivery": "none", **request}).encode()
            connection.sendall(struct.pack(">I", len(data)) + data)
            length = struct.unpack(">I", connection.recv(4, socket.MSG_WAITALL))[0]
            answer = json.loads(connection.recv(length, socket.MSG_WAITALL))
            if answer["type"] == "error":
                outcomes["failed"] += 1
                errors[answer["code"]] += 1
            else:
                outcomes[RESULTS[answer["source"]]] += 1
        return outcomes, errors


def get(host, name, width=640, **more):
    return {"url": f"http://{host}/{name}", "variant": {"width": width}, **more}


def run_load(setting):
    """Returns the outcomes and the errors that the clients counted, and the number of requests of each user."""
    many, few = User(setting.socket, 1001), User(setting.socket, 1002)
    outcomes, errors, requests = collections.Counter(), collections.Counter(), collections.Counter()

    def load(user, list_of_requests):
        counted = user.load(list_of_requests)
        outcomes.update(counted[0])
        errors.update(counted[1])
        requests[user.uid if os.geteuid() == 0 else os.geteuid()] += len(list_of_requests)

    def kill(count, program="imgworker"):
        os.kill(setting.workers(program)[0], signal.SIGKILL)
        wait_until(
            lambda: setting.stats()["workerDeaths"].get("outside", 0) >= count, setting.broker,
            lambda: "a death is not counted")

    # More images than memory holds, twice in turn: each is evicted before it is needed again. These are on disk then.
    for _ in range(2):
        load(many, [get("avatars.example", number) for number in range(24)])
    # These are not, and are decoded once more, of originals in memory.
    for _ in range(3):
        load(many, [get("photos.example", number, storage="memory") for number in range(24)])
    kill(1)
    load(many, [get("photos.example", 23)] * 40)
    load(many, [get("maps.example", number, 160) for number in range(10)])
    load(few, [get("archive.example", number, 160) for number in range(4)])
    load(few, [get("photos.example", 1, 320)] * 20)
    load(many, [get("shop.example", f"{number}.missing") for number in range(5)] + [get("shop.example", "1.missing")] * 2)
    load(many, [get("shop.example", f"{number}.bad") for number in range(3)] + [get("avatars.example", "1.cut")])
    kill(2)
    load(few, [get("maps.example", number, 160) for number in range(10)])
    # Another broker has loaded these.
    load(few, shared_images())
    load(many, shared_images())
    # The second image of a family is decoded by another worker.
    for number, family in enumerate(SAMPLES):
        load(few, [get("shop.example", f"1.{family}", 8)])
        kill(3 + number, f"imgworker-{family}")
        load(few, [get("shop.example", f"1.{family}", 4)])
    return outcomes, errors, requests


def shared_images():
    return [get("maps.example", number, 160) for number in range(40, 52)]


def fill_shared_tier(setting):
    """Lets a broker with a cache of its own load images, which the shared tier has then."""
    setting.start_shared_servers(2)
    setting.start_broker()
    User(setting.socket, 1001).load(shared_images())
    settle(setting)
    setting.stop_broker()
    shutil.rmtree(f"{setting.folder}/cache")


def settle(setting):
    """Returns the statistics when nothing changes any more."""
    def quiet():
        stats = setting.stats()
        lasting = ("requests", "evictions", "diskBytes", "diskEntries", "memoryBytes", "workers", "running", "queued", "workerRestarts")
        return [stats[name] for name in lasting] + [stats.get("sharedServers")] + [[row["state"] for row in stats["workerProcesses"]]]

    last, since = None, time.monotonic()
    deadline = since + 60
    while time.monotonic() - since < 1.5:
        if time.monotonic() > deadline:
            raise AssertionError(f"the broker does not come to rest: {last}")
        now = quiet()
        if now != last or now[6] or now[7] or "starting" in now[-1]:
            last, since = now, time.monotonic()
        time.sleep(0.1)
    return setting.stats()


def is_lasting(kind):
    """Whether idle workers of this kind stay; those of families exit after a minute."""
    return not kind.startswith("decode-")


def check_counts(stats, outcomes, errors, requests):
    for name in (*RESULTS.values(), "failed"):
        equal(stats[name], outcomes[name], f"stats: {name}")
    equal(stats["requests"], sum(outcomes.values()), "stats: requests")
    equal(stats["failures"], dict(errors), "stats: failures")
    equal(stats["workerDeaths"], {"outside": 2 + len(SAMPLES)}, "stats: deaths")
    equal({row["uid"]: row["requests"] for row in stats["users"]}, dict(requests), "stats: users")
    check(all(outcomes[name] > 0 for name in (*RESULTS.values(), "failed")) and len(errors) >= 3, f"the load has {dict(outcomes)}, {dict(errors)}")
    servers = stats["sharedServers"]
    # A late record counts at its server, and the image as loaded.
    check(sum(server["hits"] for server in servers) >= stats["sharedHits"], "the servers have the shared hits")
    check(sum(server["bytesRead"] for server in servers) > 0, "bytes were read from the servers")
    check(stats["histograms"]["shared"]["count"] > 0, "waits for the shared tier are counted")
    check(stats["evictions"] > 0 and stats["remadeAfterEviction"] > 0, "the load has evictions and remade images")


def check_top(setting, stats):
    words = [PRODUCTS / "imgbroker", "ctl", "top", "--once", "--socket", setting.socket]
    environment = {**os.environ, "LC_ALL": "C.UTF-8", "COLUMNS": "200"}
    text = subprocess.run(words, capture_output=True, check=True, timeout=30, text=True, env=environment).stdout
    print(text)
    lines = text.splitlines()

    def line(name):
        return next(line for line in lines if line.startswith(name + " "))

    def number(name, word):
        """The number after a word of a line, or before it."""
        found = re.search(rf"\b{word} (\d+)(?=  |$)|\b(\d+) {word}\b", line(name))
        return int(found[1] or found[2]) if found else None

    def rows(title):
        first = lines.index(next(line for line in lines if line.startswith(title))) + 1
        found = []
        while first < len(lines) and lines[first]:
            found.append(re.split(r" {2,}", lines[first].strip()))
            first += 1
        return found

    equal(int(re.search(r"\d+", line("Requests"))[0]), stats["requests"], "top: requests")
    for word, name in (("memory", "memoryHits"), ("disk", "diskHits"), ("shared", "sharedHits"), ("joined", "coalesced"), ("loaded", "networkLoads"), ("failed", "failed")):
        equal(number("Requests", word), stats[name], f"top: {name}")
    for word, name in (("evicted", "evictions"), ("remade", "remadeAfterEviction"), ("entries", "memoryEntries")):
        equal(number("Memory", word), stats[name], f"top: {name}")
    equal(number("Disk", "entries"), stats["diskEntries"], "top: diskEntries")
    servers = stats["sharedServers"]
    equal(re.findall(r"\d+", line("Shared")),
          [str(sum(server["state"] == "up" for server in servers)), str(len(servers))] + [str(sum(server[name] for server in servers)) for name in ("hits", "misses", "writes", "rejected", "failures")],
          "top: shared")
    for code, count in stats["failures"].items():
        equal(number("Failures", code), count, f"top: {code}")
    for cause, count in stats["workerDeaths"].items():
        equal(number("Deaths", cause), count, f"top: {cause}")
    hits = stats["memoryHits"] + stats["diskHits"] + stats["sharedHits"] + stats["coalesced"]
    equal(re.search(r"[\d.]+", line("Hits"))[0], f"{100 * hits / (stats['requests'] - stats['cancelled']):.1f}", "top: hit ratio")
    table = subprocess.run([*words[:2], "stats", *words[4:]], capture_output=True, check=True, timeout=30, text=True).stdout
    equal(re.search(r"hit ratio ([\d.]+)", table)[1], re.search(r"[\d.]+", line("Hits"))[0], "the table of stats: hit ratio")
    stages = {row[0]: row for row in rows("STAGE")}
    for name in ("hit", "load", "download", "decode"):
        equal(int(stages[name][4]), stats["histograms"][name]["count"], f"top: {name}")
    equal(int(stages["disk"][4]), stats["diskHits"], "top: disk")
    equal([int(stages["decode"][1]), int(stages["download"][1])], [stats["workers"], stats["fetchers"]], "top: workers")
    equal([row[:3] for row in rows("WORKER") if is_lasting(row[0])],
          [[row["kind"], str(row["pid"]), row["state"]] for row in stats["workerProcesses"] if is_lasting(row["kind"])], "top: processes")
    equal({row[0]: (int(row[3]), int(row[4])) for row in rows("SLOWEST")},
          {row["origin"]: (row["transfers"], row["failed"]) for row in stats["hosts"]}, "top: origins")
    equal(rows("SLOWEST")[0][0], "http://archive.example", "top: the slowest origin")
    work = sum(row["downloadMilliseconds"] + row["decodeMilliseconds"] for row in stats["users"])
    equal([(int(row[0].split()[0]), row[1], int(row[3]), int(row[4])) for row in rows("USERS")],
          [(row["uid"], f"{100 * (row['downloadMilliseconds'] + row['decodeMilliseconds']) / work:.1f} %", row["requests"], row["failed"])
           for row in stats["users"]], "top: users")
    check(True, "top agrees with stats")


def check_metrics(setting, stats):
    status, text = setting.read("metrics")
    equal(status, 200, "metrics")
    values = dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))

    def value(name):
        return int(values["imgbroker_" + name])

    for name, figure in (
            ("requests_received_total", "requests"), ('requests_total{op="get",result="memory"}', "memoryHits"),
            ('requests_total{op="get",result="disk"}', "diskHits"), ('requests_total{op="get",result="network"}', "networkLoads"),
            ('requests_total{op="get",result="failed"}', "failed"), ('requests_total{op="get",result="shared"}', "sharedHits"),
            ('cache_hits_total{tier="shared"}', "sharedHits"), ('cache_evictions_total{tier="mem"}', "evictions"),
            ("cache_remade_total", "remadeAfterEviction"), ('cache_bytes{tier="mem"}', "memoryBytes"),
            ('cache_entries{tier="mem"}', "memoryEntries"), ('cache_bytes{tier="disk"}', "diskBytes"),
            ('cache_entries{tier="disk"}', "diskEntries"), ("decodes_total", "decodes"), ("downloads_total", "downloads"),
            ("downloaded_bytes_total", "bytesDownloaded"), ("worker_restarts_total", "workerRestarts"), ("coalesced_total", "coalesced")):
        equal(value(name), stats[figure], f"metrics: {name}")
    for code, count in stats["failures"].items():
        equal(value(f'failures_total{{code="{code}"}}'), count, f"metrics: {code}")
    for cause, count in stats["workerDeaths"].items():
        equal(value(f'worker_deaths_total{{cause="{cause}"}}'), count, f"metrics: {cause}")
    for number, server in enumerate(stats["sharedServers"], 1):
        for label, name in (("hit", "hits"), ("miss", "misses"), ("rejected", "rejected"), ("failed", "failures")):
            equal(value(f'shared_lookups_total{{server="{number}",result="{label}"}}'), server[name], f"metrics: {name} of server {number}")
        equal(value(f'shared_server_up{{server="{number}"}}'), int(server["state"] == "up"), f"metrics: server {number}")
        equal(value(f'shared_server_share{{server="{number}"}}'), server["share"], f"metrics: share of server {number}")
        equal(value(f'shared_writes_total{{server="{number}"}}'), server["writes"], f"metrics: writes to server {number}")
        for label, name in (("read", "bytesRead"), ("written", "bytesWritten")):
            equal(value(f'shared_bytes_total{{server="{number}",direction="{label}"}}'), server[name], f"metrics: {name} of server {number}")
    for span in ("shared", "disk", "decode", "download", "queue"):
        equal(value(f'span_seconds_count{{span="{span}"}}'), stats["histograms"][span]["count"], f"metrics: {span}")
    equal(value('request_duration_seconds_count{result="memory"}'), stats["histograms"]["hit"]["count"], "metrics: hit")
    check(True, "the metrics agree with stats")


# Figures that a request for the statistics itself changes, or the clock.
CHANGING = ("uptimeSeconds", "clients", "openDescriptors", "loopMicroseconds")


def lasting(stats):
    stats = {name: value for name, value in stats.items() if name not in CHANGING}
    stats["histograms"] = {name: value for name, value in stats["histograms"].items() if name != "loop"}
    stats["workerProcesses"] = [row for row in stats["workerProcesses"] if is_lasting(row["kind"])]
    stats["lastDeaths"] = [{**row, "secondsAgo": 0} for row in stats["lastDeaths"]]
    return stats


def check_dashboard(setting, browser, stats):
    status = json.loads(setting.read("status.json")[1])
    equal(lasting(status["stats"]), lasting(stats), "status.json")
    # The page, which was opened before the load, has the last figures.
    browser.wait(f"document.getElementById('tiles').textContent.includes('{stats['requests']} in all')")
    samples = browser.value("Number(document.body.dataset.samples)")
    browser.wait(f"Number(document.body.dataset.samples) > {samples + 1}")

    def rows(table):
        return browser.value(
            f"[...document.querySelectorAll('#{table} tbody tr')].map((row) => [...row.children].map((cell) => cell.textContent))")

    tiles = browser.value("document.getElementById('tiles').textContent")
    check(f"{stats['requests']} in all" in tiles and f"{stats['failed']} in all" in tiles, "dashboard: requests and failures")
    equal([(row[0].split()[0], int(row[3]), int(row[4])) for row in rows("tiers")],
          [("memory", stats["memoryEntries"], stats["memoryHits"]), ("disk", stats["diskEntries"], stats["diskHits"])]
          + [("shared", row["writes"], row["hits"]) for row in stats["sharedServers"]], "dashboard: tiers")
    equal(int(rows("tiers")[0][5]), stats["evictions"], "dashboard: evictions")
    equal({row[0]: int(row[1]) for row in rows("failures")}, stats["failures"], "dashboard: failures")
    equal([(int(row[4]), int(row[3])) for row in rows("jobs")[:2]],
          [(stats["downloads"], 0), (stats["decodes"], 0)], "dashboard: jobs")
    equal([(row[0], int(row[3]), int(row[4])) for row in rows("hosts")],
          [(row["origin"], row["transfers"], row["failed"]) for row in stats["hosts"]], "dashboard: origins")
    equal([(row[0], int(row[2])) for row in rows("users")],
          [(f"uid {row['uid']}", row["requests"]) for row in stats["users"]], "dashboard: users")
    equal([row[0] for row in rows("deaths")], [f"{row['kind']} {row['pid']}" for row in stats["lastDeaths"]], "dashboard: deaths")
    check(all("killed from outside" in row[1] for row in rows("deaths")), "dashboard: the cause of each death")
    findings = browser.value("document.getElementById('findings').textContent")
    check("Memory is too small" in findings, "dashboard: memory is too small")
    check("Slowest origin: http://archive.example" in findings, "dashboard: the slowest origin")
    check(f"Most work is done for uid {stats['users'][0]['uid']}" in findings, "dashboard: the user with most work")
    check(f"{2 + len(SAMPLES)} killed from outside" in findings, "dashboard: dead workers")
    # A page that is opened now has not seen the evictions.
    browser.open(setting.url)
    browser.wait("document.getElementById('findings')?.textContent.includes('Memory is large enough: nothing was evicted in the last')")
    check(True, "dashboard: an old burst is no finding")
    check(browser.problems == [], f"the browser reports no error: {browser.problems}")


def main():
    # So that all that was started is ended, too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("out of time"))
    with tempfile.TemporaryDirectory() as folder:
        setting, browser = Setting(folder), None
        try:
            fill_shared_tier(setting)
            setting.start_broker(memory="8M")
            setting.start_exporter()
            browser = Browser()
            browser.appear(1440, 900, "light")
            browser.open(setting.url)
            browser.wait("Number(document.body?.dataset.samples) >= 1")
            outcomes, errors, requests = run_load(setting)
            stats = settle(setting)
            check_counts(stats, outcomes, errors, requests)
            check_top(setting, stats)
            check_metrics(setting, stats)
            check_dashboard(setting, browser, stats)
            equal(lasting(setting.stats()), lasting(stats), "the statistics afterwards")
        finally:
            if browser:
                browser.close()
            setting.stop()
    print("stats, top, metrics and dashboard agree")


main()
