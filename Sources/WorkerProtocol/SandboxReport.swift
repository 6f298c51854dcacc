internal import JSONCoding

/// The sandbox of a worker, as the worker verified it after entering it.
package struct SandboxReport: Hashable, Sendable {
    /// Whether its system calls are filtered.
    package var seccomp: Bool
    /// The Landlock version in force; 0 for none.
    package var landlock: Int

    /// Creates a report; by default of a worker without a sandbox.
    package init(seccomp: Bool = false, landlock: Int = 0) {
        self.seccomp = seccomp
        self.landlock = landlock
    }

    /// Whether the sandbox suffices for untrusted input: both mechanisms, with any version of Landlock.
    package var isEnough: Bool { seccomp && landlock > 0 }

    /// The sandbox as text for `stats`: "seccomp+landlock-7", "none".
    package var level: String {
        let parts = (seccomp ? ["seccomp"] : []) + (landlock > 0 ? ["landlock-\(landlock)"] : [])
        return parts.isEmpty ? "none" : parts.joined(separator: "+")
    }

    /// Returns the confinement that two workers have in common.
    package func weaker(_ other: SandboxReport) -> SandboxReport {
        SandboxReport(seccomp: seccomp && other.seccomp, landlock: min(landlock, other.landlock))
    }

    func writeMembers(to writer: inout JSONWriter) {
        writer.member("seccomp", seccomp)
        writer.member("landlock", landlock)
    }

    /// Reads the value of `field`; null reads as no sandbox.
    init(from reader: inout JSONReader, field: String) throws(JSONReader.MalformedJSON) {
        self.init()
        try reader.object(field) { (reader, name) throws(JSONReader.MalformedJSON) in
            switch name {
            case "seccomp": seccomp = try reader.boolean(name) ?? false
            case "landlock": landlock = try reader.integer(name, in: 0...Int(Int32.max)) ?? 0
            default: try reader.skip()
            }
        }
    }

    /// Reads a `ready` message: the report, nil when the message has none, and the worker's build, which only decoders
    /// send.
    static func read(
        fromReady reader: inout JSONReader
    ) throws(JSONReader.MalformedJSON) -> (SandboxReport?, build: String?) {
        var (report, build): (SandboxReport?, String?)
        try reader.readMessage { (reader, name) throws(JSONReader.MalformedJSON) in
            switch name {
            case "sandbox": report = try SandboxReport(from: &reader, field: name)
            case "build": build = try reader.string(name)
            default: try reader.skip()
            }
        }
        return (report, build)
    }
}
