/// What becomes of one kind of system call.
struct SystemCallRule: Equatable {
    /// What the kernel does with the call.
    enum Action: Equatable {
        case allow
        /// The process ends with SIGSYS: nothing but an attack asks for this.
        case kill
        /// The call fails with this error: code that runs here asks for it, and can do without.
        case fail(Int32)
    }

    /// An argument whose bits of `mask` are to equal `value`.
    struct Check: Equatable {
        var argument: UInt32
        var mask: UInt64
        var value: UInt64

        /// An argument that equals `value`. The kernel looks at the lower half of an `int` alone, and so does this.
        static func equals(_ argument: UInt32, _ value: Int32) -> Check {
            Check(argument: argument, mask: 0xFFFF_FFFF, value: UInt64(UInt32(bitPattern: value)))
        }

        /// mmap's flags, of a mapping that is no other process's: MAP_PRIVATE, and neither MAP_SHARED nor
        /// MAP_SHARED_VALIDATE, which has both bits.
        static let mapsPrivately = Check(argument: 3, mask: 3, value: 2)

        /// A pointer to nothing.
        static func isNull(_ argument: UInt32) -> Check { Check(argument: argument, mask: .max, value: 0) }

        /// An argument with all, or none, of these bits.
        static func bits(_ argument: UInt32, _ mask: Int32, are isSet: Bool) -> Check {
            let mask = UInt64(UInt32(bitPattern: mask))
            return Check(argument: argument, mask: mask, value: isSet ? mask : 0)
        }
    }

    var name: String
    var action: Action
    /// All must be true; with none, the rule is about every such call.
    var checks: [Check] = []

    static func allow(_ name: String, _ checks: Check...) -> SystemCallRule {
        SystemCallRule(name: name, action: .allow, checks: checks)
    }

    static func kill(_ name: String, _ checks: Check...) -> SystemCallRule {
        SystemCallRule(name: name, action: .kill, checks: checks)
    }

    static func fail(_ name: String, _ error: Int32, _ checks: Check...) -> SystemCallRule {
        SystemCallRule(name: name, action: .fail(error), checks: checks)
    }
}
