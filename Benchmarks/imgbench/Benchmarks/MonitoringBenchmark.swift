import BrokerHarness
import Foundation
import HTTPValues
import IPCProtocol
import ImageBrokerClient
import LocalOrigin

/// The rate of hits of a saturated broker that is observed, and of the same broker alone: a subscriber to all events,
/// `ctl top` and an exporter that is scraped, each once a second. New images are loaded meanwhile, so that there are
/// events and evictions. Everything runs on one processor, which the observers take time from. Then the processor time
/// that they take of a broker without hits.
enum MonitoringBenchmark {
    static func rows(_ run: BenchmarkRun) throws -> [Row] {
        let origin = try ManyPictures()
        defer { origin.stop() }
        return try onOneProcessor {
            let broker = try BrokerProcess(run.broker, ["--workers", "1", "--memory-limit", "8M"])
            defer { broker.stop() }
            let load = try NewImages(broker, origin)
            defer { load.stop() }
            return try busyRows(run, broker, url: origin.url(0)) + [idleRow(run, broker)]
        }
    }

    /// The hits of a busy broker, in blocks of four slices: alone, observed, observed, alone. A drift of the machine's
    /// speed affects both halves of a block equally. A slice is as long as the observers' interval.
    private static func busyRows(_ run: BenchmarkRun, _ broker: BrokerProcess, url: String) throws -> [Row] {
        let hit = try HitProbe(broker, url: url)
        defer { hit.close() }
        // Some milliseconds.
        let count = 1_000
        let milliseconds = run.scaled(1000.0, 200.0)
        var times = ProcessorTimes(of: broker.pid)
        func slice(_ observers: Observers?) throws -> (elapsed: Double, processor: Double) {
            func used() -> Double {
                times.sample()
                return times.milliseconds.values.reduce(0, +) + ownMilliseconds() + (observers?.milliseconds ?? 0)
            }
            let before = used()
            var (sum, parts) = (0.0, 0)
            while sum * Double(count) < milliseconds * 1000 {
                sum += try hit.pipeline(depth: 32, count: count)
                parts += 1
            }
            return (sum / Double(parts), (used() - before) * 1000 / Double(parts * count))
        }
        _ = try slice(nil)
        var (elapsed, processor, scrapes) = (Pairs(), Pairs(), 0)
        for _ in 0..<run.scaled(20, 2) {
            let before = try slice(nil)
            let observers = try Observers(run.broker, broker)
            let observed = (try slice(observers), try slice(observers))
            scrapes += try observers.stop(broker)
            let after = try slice(nil)
            elapsed.add(
                (observed.0.elapsed + observed.1.elapsed) / 2, against: (before.elapsed + after.elapsed) / 2)
            processor.add(
                (observed.0.processor + observed.1.processor) / 2, against: (before.processor + after.processor) / 2)
        }
        func note(_ pairs: Pairs, _ more: String = "") -> String {
            let (low, high) = pairs.ratios.confidence
            return "median within \(rounded(low)) – \(rounded(high)) (95 %)\(more)"
        }
        let what = "hit of a busy broker with a subscriber, top and a scraped exporter"
        return [
            Row(
                "monitoring.processor", "\(what), processor time of all processes",
                against: "the same broker alone, one core", processor, unit: "µs", goal: 1.03, note: note(processor)),
            Row(
                "monitoring.hit", "\(what), time for each", against: "the same broker alone, one core", elapsed,
                unit: "µs", goal: nil, note: note(elapsed, ", \(scrapes) scrapes")),
        ]
    }

    /// The processor time for the observers of a broker without hits, each second.
    private static func idleRow(_ run: BenchmarkRun, _ broker: BrokerProcess) throws -> Row {
        let seconds = run.scaled(2.0, 1.0)
        var times = ProcessorTimes(of: broker.pid)
        /// The broker's time and the observers' in milliseconds each second.
        func slice(_ observers: Observers?) -> (broker: Double, observers: Double) {
            func used() -> (Double, Double) {
                times.sample()
                return (times.milliseconds[.broker] ?? 0, observers?.milliseconds ?? 0)
            }
            let before = used()
            let (elapsed, _) = timed { usleep(UInt32(seconds * 1e6)) }
            let after = used()
            return ((after.0 - before.0) / elapsed * 1000, (after.1 - before.1) / elapsed * 1000)
        }
        var (all, own) = (Sample(), Sample())
        for _ in 0..<run.scaled(6, 1) {
            let before = slice(nil)
            let observers = try Observers(run.broker, broker)
            let observed = slice(observers)
            _ = try observers.stop(broker)
            let broker = observed.broker - (before.broker + slice(nil).broker) / 2
            own.add(broker)
            all.add(broker + observed.observers)
        }
        return Row(
            "monitoring.second", "a subscriber, top and a scraped exporter, processor time each second", all,
            allowed: 30,
            unit: "ms", note: "\(rounded(own.median)) ms of it the broker's")
    }

    /// The processor time of this process in milliseconds.
    private static func ownMilliseconds() -> Double {
        var usage = rusage()
        getrusage(RUSAGE_SELF.rawValue, &usage)
        func milliseconds(_ time: timeval) -> Double { Double(time.tv_sec) * 1000 + Double(time.tv_usec) / 1000 }
        return milliseconds(usage.ru_utime) + milliseconds(usage.ru_stime)
    }

    /// A client that loads twenty new images a second.
    private final class NewImages: @unchecked Sendable {
        private let lock = NSLock()
        private var isStopped = false
        private let ended = DispatchSemaphore(value: 0)

        init(_ broker: BrokerProcess, _ origin: ManyPictures) throws {
            let client = try broker.client()
            let urls = try (1...10_000).map { try SourceURL(origin.url($0)) }
            nonisolated(unsafe) let shared = client
            Thread.detachNewThread { [self] in
                var options = GetOptions()
                options.delivery = .none
                for url in urls {
                    if lock.withLock({ isStopped }) { break }
                    if (try? shared.send(get: url, options)) == nil || (try? shared.receive()) == nil { break }
                    usleep(50_000)
                }
                ended.signal()
            }
        }

        func stop() {
            lock.withLock { isStopped = true }
            ended.wait()
        }
    }
}
