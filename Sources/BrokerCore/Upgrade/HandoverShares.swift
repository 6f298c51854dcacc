/// How much of its clients a broker hands over. While it writes a state and another process reads it, no client is served, so
/// the connections of users that have too much are closed instead.
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
