import LinuxSystem
import Sandbox
import SystemValues

/// The sandbox of the processes that receive and close descriptors for the broker.
enum HelperSandbox {
    private static let strict = "--strict-sandbox"

    /// The command line of the process that `word` names.
    static func arguments(_ word: String, isStrict: Bool) -> [String] {
        isStrict ? [word, strict] : [word]
    }

    /// Gives up all rights but those to a socket and to memory.
    ///
    /// A kernel without a part of the sandbox is reported, and refuses the workers, unless the broker may do without. The
    /// helper goes on with the other parts: it parses nothing, and the broker cannot receive descriptors itself.
    static func enter(_ policy: SandboxPolicy, _ words: some Sequence<String>) {
        var policy = policy
        policy.isStrict = words.contains(strict)
        let log = Log(name: "imgbroker", level: .warning)
        for problem in policy.enter().problems {
            log.warning(.sandbox, "the process for descriptors is not confined in full: \(problem)")
        }
    }
}
