import BrokerHarness
import Foundation
import HTTPValues
import IPCProtocol
import ImageBrokerClient
import LocalOrigin

/// The rate of hits of a saturated broker that is observed, and of the same broker alone: a subscriber to all events, `ctl top`
/// and an exporter that is scraped, each once a second. New images are loaded meanwhile, so that there are events and evictions.
/// Everything runs on one processor, which the observers take time from.
enum MonitoringBenchmark {
    static func rows(_ run: BenchmarkRun) throws -> [Row] {
        let origin = try ManyPictures()
        defer { origin.stop() }
        return try onOneProcessor {
            let broker = try BrokerProcess(run.broker, ["--workers", "1", "--memory-limit", "8M"])
            defer { broker.stop() }
            let hit = try HitProbe(broker, url: origin.url(0))
            defer { hit.close() }
            let load = try NewImages(broker, origin)
            defer { load.stop() }
            // Some tens of milliseconds.
            let count = run.scaled(5_000, 1_000)
            let seconds = run.scaled(2.0, 1.0)
            var times = ProcessorTimes(of: broker.pid)
            func turn(_ observers: Observers?) throws -> (elapsed: Double, processor: Double) {
                func used() -> Double {
                    times.sample()
                    return times.milliseconds.values.reduce(0, +) + ownMilliseconds() + (observers?.milliseconds ?? 0)
                }
                let before = used()
                var (sum, parts) = (0.0, 0)
                while sum * Double(count) < seconds * 1e6 {
                    sum += try hit.pipeline(depth: 32, count: count)
                    parts += 1
                }
                return (sum / Double(parts), (used() - before) * 1000 / Double(parts * count))
            }
            _ = try turn(nil)
            var (elapsed, processor, scrapes) = (Pairs(), Pairs(), 0)
            for number in 0..<run.scaled(15, 2) {
                // Each begins alternately.
                let alone = number % 2 == 0 ? try turn(nil) : nil
                let observers = try Observers(run.broker, broker)
                let observed = try turn(observers)
                scrapes += try observers.stop(broker)
                let reference = try alone ?? turn(nil)
                elapsed.add(observed.elapsed, against: reference.elapsed)
                processor.add(observed.processor, against: reference.processor)
            }
            let what = "hit of a busy broker with a subscriber, top and a scraped exporter"
            return [
                Row(
                    "monitoring.processor", "\(what), processor time of all processes",
                    against: "the same broker alone, one core", processor, unit: "µs", goal: 1.03),
                Row(
                    "monitoring.hit", "\(what), time for each", against: "the same broker alone, one core", elapsed,
                    unit: "µs", goal: nil, note: "\(scrapes) scrapes"),
            ]
        }
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
