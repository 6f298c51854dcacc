internal import JSONCoding

/// What confines a worker, as it found out itself when it had entered its sandbox.
package struct SandboxReport: Hashable, Sendable {
    /// Whether its system calls are filtered.
    package var seccomp: Bool
    /// The version of Landlock that is in force; 0 for none.
    package var landlock: Int

    /// A report with what holds.
    package init(seccomp: Bool = false, landlock: Int = 0) {
        self.seccomp = seccomp
        self.landlock = landlock
    }

    /// Whether it is what a worker must have to be given what strangers chose: both, and of Landlock any version.
    package var isEnough: Bool { seccomp && landlock > 0 }

    /// In a word, as `stats` has it: "seccomp+landlock-7", "none".
    package var level: String {
        let parts = (seccomp ? ["seccomp"] : []) + (landlock > 0 ? ["landlock-\(landlock)"] : [])
        return parts.isEmpty ? "none" : parts.joined(separator: "+")
    }

    /// What holds for both of two workers.
    package func weaker(_ other: SandboxReport) -> SandboxReport {
        SandboxReport(seccomp: seccomp && other.seccomp, landlock: min(landlock, other.landlock))
    }

    func writeMembers(to writer: inout JSONWriter) {
        writer.member("seccomp", seccomp)
        writer.member("landlock", landlock)
    }

    /// Reads the value of `field`; nothing that holds when it is null.
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

    /// What a `ready` says: the report, nil where it has none, and the worker's build, which decoders have.
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
