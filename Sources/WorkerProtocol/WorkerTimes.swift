package import JSONCoding

// Durations that workers measure, in microseconds. On the wire they are short lists of numbers in the order below; a
// time that was not measured is 0. The broker bounds them by what it measures itself.

/// The parts of a transfer; with redirects, the sums over all requests.
package struct FetchTimes: Equatable, Sendable {
    /// The look-up of the name, the connection, its TLS handshake, the wait for the first byte of the response, and its
    /// rest.
    package var (dns, connect, tls, firstByte, body) = (0, 0, 0, 0, 0)

    package init() {}

    /// Adds the times of another request.
    package mutating func add(_ other: FetchTimes) {
        dns += other.dns
        connect += other.connect
        tls += other.tls
        firstByte += other.firstByte
        body += other.body
    }

    package mutating func list(_ fields: inout Fields) {
        var values = [dns, connect, tls, firstByte, body]
        guard fields.isReading || values.contains(where: { $0 > 0 }) else { return }
        fields.integers("times", &values, in: 0...Int.max, most: 5, .optional)
        guard values.count == 5 else { return fields.note("times", expected: "5 numbers") }
        (dns, connect, tls, firstByte, body) = (values[0], values[1], values[2], values[3], values[4])
    }
}

/// The parts of a decoding.
package struct DecodeTimes: Equatable, Sendable {
    /// The codec with colour conversion, scaling, the steps, encoding, and sealing.
    package var (codec, scale, steps, encode, seal) = (0, 0, 0, 0, 0)

    package init() {}

    package var total: Int { codec + scale + steps + encode + seal }

    package mutating func list(_ fields: inout Fields) {
        var values = [codec, scale, steps, encode, seal]
        guard fields.isReading || values.contains(where: { $0 > 0 }) else { return }
        fields.integers("times", &values, in: 0...Int.max, most: 5, .optional)
        guard values.count == 5 else { return fields.note("times", expected: "5 numbers") }
        (codec, scale, steps, encode, seal) = (values[0], values[1], values[2], values[3], values[4])
    }
}
