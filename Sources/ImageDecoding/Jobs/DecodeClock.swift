import IPCProtocol
import LinuxSystem
import SystemValues
import WorkerProtocol

/// Measures the parts of a decoding. What waits for the broker counts for none of them.
final class DecodeClock {
    private(set) var times = DecodeTimes()
    fileprivate let output: any ResultOutput

    init(writingTo output: any ResultOutput) { self.output = output }

    /// Adds the time of `work` to a part, without the time added to other parts meanwhile.
    func measure<Value>(
        _ part: WritableKeyPath<DecodeTimes, Int>, _ work: () throws(WireError) -> Value
    ) throws(WireError) -> Value {
        let (begun, before) = (Instant.now, counted)
        defer { add(Instant.now.microseconds(since: begun) - (counted - before), to: part) }
        return try work()
    }

    /// The microseconds that have a part or none.
    private var counted: Int { times.codec + times.scale + times.steps + times.encode + output.waitedMicroseconds }

    func add(_ microseconds: Int, to part: WritableKeyPath<DecodeTimes, Int>) {
        times[keyPath: part] += max(0, microseconds)
    }
}

/// Measures the scaling that follows it: two readings of the clock for a band of 64 KiB.
struct TimedScaling: RowSink {
    private let clock: DecodeClock
    private var next: any RowSink
    /// A band takes some microseconds, so the sum is in nanoseconds.
    private var nanoseconds = 0

    init(_ clock: DecodeClock, _ next: any RowSink) { (self.clock, self.next) = (clock, next) }

    mutating func take(_ band: RowBand) throws(WireError) {
        let (begun, waited) = (Instant.now, clock.output.waitedMicroseconds)
        try next.take(band)
        nanoseconds +=
            Int(Instant.now.nanoseconds - begun.nanoseconds) - 1000 * (clock.output.waitedMicroseconds - waited)
    }

    mutating func finish() throws(WireError) {
        try next.finish()
        clock.add(nanoseconds / 1000, to: \.scale)
    }
}
