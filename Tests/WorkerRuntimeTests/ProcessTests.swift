import LinuxSystem
import SystemValues
import TestSupport
import Testing

/// Other processes and users, as the kernel and the system's tables describe them.
struct ProcessTests {
    /// A process may give itself any name, which stands before the state of the process in its file.
    @Test(arguments: ["a", ")", "a) R 1 (b", "\u{600}", "a b\u{301}"])
    func `a process is ending when it was killed, whatever its name`(name: String) throws {
        let (own, control) = try UnixSocket.pair()
        let child = try ChildProcess(
            path: "/bin/sh", arguments: ["-c", #"printf %s "$0" >/proc/$$/comm; read line <&3"#, name],
            environment: [], control: control)
        try eventually("it has its name") { text(ofFile: "/proc/\(child.pid)/comm") == name + "\n" }
        #expect(!child.isEnding)
        child.send(SignalNumber.kill)
        try eventually("it is ending") { child.isEnding }
        _ = child.waitForExit(milliseconds: 5000)
        withExtendedLifetime(own) {}
    }

    @Test func `numbers of users and groups have 32 bits`() {
        #expect(CurrentProcess.findUser("0")?.uid == 0 && CurrentProcess.findUser("root")?.uid == 0)
        #expect(CurrentProcess.findGroup("0") == 0)
        for number in ["4294967296", "-1", "18446744073709551616"] {
            #expect(CurrentProcess.findUser(number) == nil && CurrentProcess.findGroup(number) == nil)
        }
    }
}
