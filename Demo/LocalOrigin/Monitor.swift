internal import Foundation

/// A value behind a lock whose changes threads can wait for.
final class Monitor<Value: Sendable>: @unchecked Sendable {
    private let condition = NSCondition()
    private var value: Value

    init(_ value: Value) {
        self.value = value
    }

    /// Reads or changes the value and wakes all waiting threads.
    func access<Result>(_ body: (inout Value) -> Result) -> Result {
        condition.lock()
        defer {
            condition.broadcast()
            condition.unlock()
        }
        return body(&value)
    }

    /// Waits at most `seconds` until `isTrue`. Returns whether it became true.
    func wait(seconds: Double, until isTrue: (Value) -> Bool) -> Bool {
        let deadline = Date(timeIntervalSinceNow: seconds)
        condition.lock()
        defer { condition.unlock() }
        while !isTrue(value) {
            guard condition.wait(until: deadline) else { return isTrue(value) }
        }
        return true
    }
}
