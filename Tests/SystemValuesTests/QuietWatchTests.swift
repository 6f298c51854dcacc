import SystemValues
import Testing

struct QuietWatchTests {
    private let start = Instant(nanoseconds: 1_000_000_000)

    @Test func `it becomes quiet once, one to two intervals after the last event`() {
        var watch = QuietWatch(milliseconds: 100)
        #expect(watch.nextLook == nil)
        watch.note(at: start)
        #expect(watch.nextLook == start.adding(milliseconds: 100))
        watch.note(at: start.adding(milliseconds: 90))
        // Events do not put the look off, so that they need not set a timer.
        #expect(watch.nextLook == start.adding(milliseconds: 100))
        var isQuiet = watch.hasBecomeQuiet(at: start.adding(milliseconds: 99))
        #expect(!isQuiet)
        isQuiet = watch.hasBecomeQuiet(at: start.adding(milliseconds: 100))
        #expect(!isQuiet && watch.nextLook == start.adding(milliseconds: 200))
        isQuiet = watch.hasBecomeQuiet(at: start.adding(milliseconds: 200))
        #expect(isQuiet && watch.nextLook == nil)
        isQuiet = watch.hasBecomeQuiet(at: start.adding(milliseconds: 900))
        #expect(!isQuiet)
        watch.note(at: start.adding(milliseconds: 1000))
        #expect(watch.nextLook == start.adding(milliseconds: 1100))
    }
}
