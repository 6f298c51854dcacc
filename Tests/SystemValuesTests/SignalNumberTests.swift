import Glibc
import SystemValues
import Testing

/// The numbers and names of signals against the C library's.
struct SignalNumberTests {
    @Test func `numbers are those of the C library`() {
        #expect(SignalNumber.terminate == SIGTERM)
        #expect(SignalNumber.interrupt == SIGINT)
        #expect(SignalNumber.hangup == SIGHUP)
        #expect(SignalNumber.brokenPipe == SIGPIPE)
        #expect(SignalNumber.kill == SIGKILL)
        #expect(SignalNumber.badSystemCall == SIGSYS)
        #expect(SignalNumber.processorTime == SIGXCPU)
        let faults = [SIGSEGV, SIGABRT, SIGBUS, SIGILL, SIGFPE, SIGTRAP, SIGPIPE, SIGXFSZ]
        #expect(SignalNumber.faults == Set(faults))
    }

    @Test(arguments: Int32(-1)...70)
    func `names are those of the C library`(number: Int32) {
        #expect(SignalNumber.name(of: number) == (unsafe String(cString: strsignal(number))))
    }

    @Test func `exits are described`() {
        #expect("\(ProcessExit.status(2))" == "exit status 2")
        #expect("\(ProcessExit.signal(9))" == "signal 9 (Killed)")
    }
}
