internal import CSeccomp
internal import Glibc

/// The effect of a filter on one kind of system call.
struct SystemCallRule: Equatable {
    enum Action: Equatable {
        case allow
        /// Kills the process with SIGSYS: only an attack makes this call.
        case kill
        /// Fails with this error: code in the process makes this call, and works without it.
        case fail(Int32)

        /// libseccomp's number of the action.
        var code: UInt32 {
            switch self {
            case .allow: SCMP_ACT_ALLOW
            case .kill: SCMP_ACT_KILL_PROCESS
            // SCMP_ACT_ERRNO, a macro that is not imported.
            case .fail(let error): 0x50000 | UInt32(error) & 0xFFFF
            }
        }
    }

    /// A condition: the argument's bits of `mask` equal `value`.
    struct Check: Equatable {
        var argument: UInt32
        var mask, value: UInt64

        /// The argument equals `value`. Compares the lower half, as the kernel does for an `int`.
        static func equals(_ argument: UInt32, _ value: Int32) -> Check {
            Check(argument: argument, mask: 0xFFFF_FFFF, value: UInt64(UInt32(bitPattern: value)))
        }

        /// The argument is this type of a socket, with or without SOCK_CLOEXEC and SOCK_NONBLOCK.
        static func isOfType(_ argument: UInt32, _ type: __socket_type) -> Check {
            let flags = SOCK_CLOEXEC.rawValue | SOCK_NONBLOCK.rawValue
            return Check(argument: argument, mask: UInt64(0xFFFF_FFFF & ~flags), value: UInt64(type.rawValue))
        }

        /// The flags of an mmap are private: MAP_PRIVATE, and neither MAP_SHARED nor MAP_SHARED_VALIDATE, which has
        /// both bits; nor MAP_GROWSDOWN, because the data limit does not count such memory.
        static let mapsPrivately = Check(argument: 3, mask: 0x103, value: 2)

        static func isNull(_ argument: UInt32) -> Check { Check(argument: argument, mask: .max, value: 0) }

        /// The argument has all, or none, of these bits.
        static func bits(_ argument: UInt32, _ mask: Int32, are isSet: Bool) -> Check {
            let mask = UInt64(UInt32(bitPattern: mask))
            return Check(argument: argument, mask: mask, value: isSet ? mask : 0)
        }
    }

    var name: String
    var action: Action
    /// The conditions, all of which must hold. Without any, the rule applies to every such call.
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
