/// How many processes may be held up by the descriptors of users. Such a process cannot be killed before the file system that
/// it waits for answers or ends, so it cannot be taken back either.
///
/// Every user may hold up one, whatever the others do; a second one only while few are held up in all. So the users whose
/// descriptors hold processes up do not keep those of another user from being received.
package enum HelperShares {
    /// The most of one user.
    package static let ofUser = 2
    /// The number in all from which on no user may hold up a second one.
    package static let comfortable = 8
    /// The most in all. It bounds the memory and the process ids that a user with many uids takes.
    package static let limit = 64

    /// Whether a user that holds up `own` processes of `all` may have descriptors received that may hold up one more.
    package static func permits(own: Int, all: Int) -> Bool {
        own == 0 ? all < limit : own < ofUser && all < comfortable
    }
}
