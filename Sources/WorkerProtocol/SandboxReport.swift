package import JSONCoding

/// The sandbox of a worker, as the worker verified it after entering it.
package struct SandboxReport: Hashable, Sendable, FieldList {
    /// Whether its system calls are filtered.
    package var seccomp: Bool
    /// The Landlock version in force; 0 for none.
    package var landlock: Int

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

    package static var blank: SandboxReport { SandboxReport() }

    package mutating func list(_ fields: inout Fields) {
        fields.boolean("seccomp", &seccomp, .optional)
        fields.integer("landlock", &landlock, in: 0...Int(Int32.max), .optional)
    }
}
