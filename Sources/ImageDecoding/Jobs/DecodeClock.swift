import IPCProtocol
import LinuxSystem
import SystemValues
import WorkerProtocol

/// Measures the parts of a decoding. What waits for the broker counts for none of them.
final class DecodeClock {
    private(set) var times = DecodeTimes()
    private let output: any ResultOutput

    init(writingTo output: any ResultOutput) { self.output = output }

    /// Adds the time of `work` to a part, without the time added to other parts meanwhile.
    func measure<Value>(
        _ part: WritableKeyPath<DecodeTimes, Int>, _ work: () throws(WireError) -> Value
    ) throws(WireError) -> Value {
        let (begun, before) = (Instant.now, counted)
        defer {
            let own = max(0, Instant.now.microseconds(since: begun) - (counted - before))
            times[keyPath: part] += own
        }
        return try work()
    }

    /// The microseconds that have a part or none.
    private var counted: Int {
        times.codec + times.scale + times.steps + times.encode + output.waitedMicroseconds
    }

    /// Adds time spent on reading the header, before the decoding.
    func add(header microseconds: Int) { times.codec += max(0, microseconds) }

    fileprivate func add(scale microseconds: Int) { times.scale += max(0, microseconds) }
    fileprivate var waited: Int { output.waitedMicroseconds }
}

/// Measures the scaling that follows it: two readings of the clock for a band of 64 KiB.
struct TimedScaling<Next: RowSink>: RowSink {
    private let clock: DecodeClock
    private var next: Next
    /// A band takes some microseconds, so the sum is in nanoseconds.
    private var nanoseconds = 0

    init(_ clock: DecodeClock, _ next: Next) { (self.clock, self.next) = (clock, next) }

    mutating func take(_ band: RowBand) throws(WireError) {
        let (begun, waited) = (Instant.now, clock.waited)
        try next.take(band)
        nanoseconds += Int(Instant.now.nanoseconds - begun.nanoseconds) - 1000 * (clock.waited - waited)
    }

    mutating func finish() throws(WireError) {
        try next.finish()
        clock.add(scale: nanoseconds / 1000)
    }
}

extension DecodeClock {
    /// A sink that measures `next`.
    func timed(_ next: some RowSink) -> any RowSink { TimedScaling(self, next) }
}
