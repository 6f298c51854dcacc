/// How many processes may be held up by the descriptors of users. Such a process cannot be killed before the file
/// system that it waits for answers or ends, so it cannot be taken back either.
///
/// Every user may hold up one, whatever the others do; a second one only while few are held up in all. So the users
/// whose descriptors hold processes up do not keep those of another user from being received.
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

/// How much of its clients a broker hands over. While it writes a state and another process reads it, no client is
/// served, so the connections of users that have too much are closed instead.
package enum HandoverShares {
    /// What a connection would add to the state.
    package struct Load {
        package let client: ClientID
        package let user: UInt32
        package let isAdmin: Bool
        package let bytes: Int

        /// - Parameters:
        ///   - weight: that of its unanswered requests, which are encoded again.
        ///   - input: the bytes that were received and not read.
        ///   - output: the bytes that were not sent.
        package init(client: ClientID, user: UInt32, isAdmin: Bool, weight: Int, input: Int, output: Int) {
            (self.client, self.user, self.isAdmin) = (client, user, isAdmin)
            bytes = HandoverShares.bytesOfConnection + weight << 10 + input + output
        }
    }

    /// The most bytes of all connections, of which users have shares.
    static let limit = 16 << 20
    /// The bytes for which a connection counts at least, because it takes as long as so many.
    static let bytesOfConnection = 4096

    /// The clients that are not handed over. Those with little come first, so that others cannot take their place.
    package static func refused(_ loads: [Load], upTo limit: Int = limit) -> [ClientID] {
        var pool = SharedPool(limit: limit)
        return loads.sorted { ($0.bytes, $0.client) < ($1.bytes, $1.client) }.compactMap { load in
            if pool.refusal(of: load.bytes, own: 0, user: load.user, isAdmin: load.isAdmin) != nil {
                return load.client
            }
            pool.take(load.bytes, for: load.user)
            return nil
        }
    }
}
