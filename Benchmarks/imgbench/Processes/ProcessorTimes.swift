import Foundation

/// The processor time of a broker and of each kind of its children, in milliseconds, including children that have
/// exited.
///
/// The kernel adds up the time of exited children without their kinds. So the children are sampled while they live; the
/// rest, after each one's last sample, is divided in proportion to the sampled time of the kinds that have exited.
struct ProcessorTimes {
    /// A kind of process, with its name in notes. The fork server counts as a decode worker, the broker's helpers as
    /// `other`. The broker's thread that decides and the one that provides pages are apart.
    enum Kind: String, CaseIterable {
        case broker, pages
        case fetch = "imgfetch"
        case worker = "imgworker"
        case cache = "imgcache"
        case tier = "imgtier"
        case other = "helpers"
    }

    private struct Time {
        let kind: Kind
        let milliseconds: Double
    }

    private let broker: pid_t
    private var times: [pid_t: Time] = [:]
    private var present: Set<pid_t> = []

    init(of broker: pid_t) { self.broker = broker }

    /// Notes the times of the processes that exist now.
    mutating func sample() {
        present = Set(ProcessTree.children(of: broker))
        for process in present {
            guard let milliseconds = Self.milliseconds(process), let kind = kind(of: process) else { continue }
            times[process] = Time(kind: kind, milliseconds: milliseconds)
        }
        for (thread, milliseconds) in Self.threads(of: broker) {
            times[thread] = Time(kind: thread == broker ? .broker : .pages, milliseconds: milliseconds)
            present.insert(thread)
        }
    }

    /// Samples until all processes together have used less than a millisecond in each of three pauses, at most a
    /// minute: work that follows the replies, such as writing to disk, belongs to the figure.
    mutating func settle(pauseMilliseconds: Int = 100) {
        var (last, quiet) = (total, 0)
        for _ in 0..<60_000 / pauseMilliseconds where quiet < 3 {
            usleep(UInt32(pauseMilliseconds * 1_000))
            sample()
            quiet = total - last < 1 ? quiet + 1 : 0
            last = total
        }
    }

    /// The time of each kind so far.
    var milliseconds: [Kind: Double] {
        var (living, exited): ([Kind: Double], [Kind: Double]) = ([:], [:])
        for (process, time) in times {
            if present.contains(process) {
                living[time.kind, default: 0] += time.milliseconds
            } else {
                exited[time.kind, default: 0] += time.milliseconds
            }
        }
        let sampled = exited.values.reduce(0, +)
        let factor = sampled > 0 ? max(1, reaped / sampled) : 1
        return living.merging(exited.mapValues { $0 * factor }) { $0 + $1 }
    }

    private var total: Double { milliseconds.values.reduce(0, +) }

    /// The time of all children that have exited.
    private var reaped: Double {
        (ProcessTree.fields(broker)?[13...14].reduce(0, +)).map { Double($0) * Self.tick } ?? 0
    }

    /// The milliseconds of the unit of /proc/PID/stat.
    private static let tick = 1000 / Double(sysconf(Int32(_SC_CLK_TCK)))

    /// The exact time of the threads that exist, or, if more, the rounded time that includes exited threads.
    static func milliseconds(_ process: pid_t) -> Double? {
        guard let fields = ProcessTree.fields(process) else { return nil }
        return max(threads(of: process).values.reduce(0, +), Double(fields[11] + fields[12]) * tick)
    }

    /// The exact time of each thread that exists.
    private static func threads(of process: pid_t) -> [pid_t: Double] {
        let threads = (try? FileManager.default.contentsOfDirectory(atPath: "/proc/\(process)/task")) ?? []
        var times: [pid_t: Double] = [:]
        for thread in threads {
            let words = ProcessTree.read(process, "task/\(thread)/schedstat")?.split(separator: " ")
            if let number = pid_t(thread) { times[number] = (words?.first.flatMap { Double($0) } ?? 0) / 1e6 }
        }
        return times
    }

    private func kind(of process: pid_t) -> Kind? {
        guard let name = ProcessTree.read(process, "comm") else { return nil }
        return [.fetch, .worker, .cache, .tier].first { name.hasPrefix($0.rawValue) } ?? .other
    }
}
