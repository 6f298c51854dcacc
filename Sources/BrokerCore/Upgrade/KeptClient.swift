internal import IPCProtocol
package import JSONCoding

/// A client's connection, for the next process.
package struct KeptClient: Equatable, Sendable, FieldList {
    /// A buffer that a client leases, or that is being sent to it.
    package struct Hold: Equatable, Sendable, FieldList {
        package var buffer: Int
        package var count: Int
        package var bytes: Int
        package var isSending = false

        package static var blank: KeptClient.Hold { KeptClient.Hold(buffer: 1, count: 1, bytes: 0) }

        package mutating func list(_ fields: inout Fields) {
            fields.integer("buffer", &buffer, in: 1...JSONReader.maximumInteger)
            fields.integer("count", &count, in: 1...Int.max)
            fields.integer("bytes", &bytes, in: 0...Int.max)
            fields.flag("isSending", &isSending)
        }
    }

    /// A segment that it was sent and has not forgotten.
    package struct Segment: Equatable, Sendable, FieldList {
        package var number: Int
        package var endedBytes: Int?

        package static var blank: KeptClient.Segment { KeptClient.Segment(number: 1) }

        package mutating func list(_ fields: inout Fields) {
            fields.integer("number", &number, in: 1...JSONReader.maximumInteger)
            fields.integer("endedBytes", &endedBytes, in: 1...Int.max)
        }
    }

    package struct Subscription: Equatable, Sendable, FieldList {
        package var id: Int
        package var events: [String]

        package static var blank: KeptClient.Subscription { KeptClient.Subscription(id: 0, events: []) }

        package mutating func list(_ fields: inout Fields) {
            fields.integer("id", &id, in: 0...JSONReader.maximumInteger)
            fields.strings("events", &events, most: BrokerEvent.Name.allCases.count)
        }
    }

    /// A frame that the socket has not accepted completely.
    package struct Output: Equatable, Sendable, FieldList {
        package var bytes: [UInt8]
        package var descriptors: [Int] = []
        package var payload: Payload?

        package init(bytes: [UInt8]) { self.bytes = bytes }

        package static var blank: KeptClient.Output { KeptClient.Output(bytes: []) }

        package mutating func list(_ fields: inout Fields) {
            fields.integers("descriptors", &descriptors, in: 0...Int(Int32.max))
            fields.object("file", &payload)
        }
    }

    /// The unsent part of bytes that follow a frame.
    package struct Payload: Equatable, Sendable, FieldList {
        package var descriptor: Int
        package var offset: Int
        package var count: Int
        package var buffer: Int

        package init(descriptor: Int, offset: Int, count: Int, buffer: Int) {
            (self.descriptor, self.offset, self.count, self.buffer) = (descriptor, offset, count, buffer)
        }

        package static var blank: KeptClient.Payload {
            KeptClient.Payload(descriptor: 0, offset: 0, count: 0, buffer: 1)
        }

        package mutating func list(_ fields: inout Fields) {
            fields.integer("descriptor", &descriptor, in: 0...Int(Int32.max))
            fields.integer("offset", &offset, in: 0...Int.max)
            fields.integer("count", &count, in: 0...Int.max)
            fields.integer("buffer", &buffer, in: 1...JSONReader.maximumInteger)
        }
    }

    package var descriptor: Int
    package var holds: [Hold] = []
    package var subscriptions: [Subscription] = []
    /// Its requests that are to be made once more, and the bytes that were received and not read.
    package var input: [UInt8] = []
    /// The ids of those that are detached.
    package var detached: [Int] = []
    /// The bytes that are still to be skipped before them.
    package var skipped = 0
    package var output: [Output] = []
    /// An upper bound of the descriptors that it was sent and has not received.
    package var unread = 0
    /// Whether it maps segments, and those that it has.
    package var mapsSegments = false
    package var segments: [Segment] = []
    package var namespace: UInt64?
    package var program: String?
    /// Its request for the upgrade, if it has made it.
    package var upgrade: Int?

    package static var blank: KeptClient { KeptClient(descriptor: 0) }

    /// The fields besides the holds and the raw bytes.
    package mutating func list(_ fields: inout Fields) {
        fields.integer("descriptor", &descriptor, in: 0...Int(Int32.max))
        fields.objects("subscriptions", orNone: &subscriptions)
        if fields.isReading || !detached.isEmpty {
            fields.integers("detached", &detached, in: 0...JSONReader.maximumInteger, .optional)
        }
        fields.integer("skipped", &skipped, in: 0...Int.max, omitting: 0)
        fields.integer("unread", &unread, in: 0...Int(Int32.max), omitting: 0)
        fields.flag("mapsSegments", &mapsSegments)
        fields.objects("segments", orNone: &segments)
        fields.namespace("namespace", &namespace)
        fields.string("program", &program)
        fields.integer("upgrade", &upgrade, in: 0...JSONReader.maximumInteger)
    }
}
