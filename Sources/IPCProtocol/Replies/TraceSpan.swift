package import JSONCoding

/// A part of the time that a traced request took.
public struct TraceSpan: Hashable, Sendable {
    /// What took the time. Later brokers may have other names.
    public var name: String
    /// Its start in microseconds after the request's arrival; negative for work that another request had begun before.
    public var start: Int
    /// Its duration in microseconds.
    public var microseconds: Int

    /// Creates a span.
    public init(_ name: String, start: Int, microseconds: Int) {
        (self.name, self.start, self.microseconds) = (name, start, microseconds)
    }

    /// The end in microseconds after the request's arrival.
    public var end: Int { start + microseconds }

    /// The most spans of a request.
    package static let most = 256
    /// The longest time that is accepted: a year in microseconds.
    package static let longest = 366 * 86400 * 1_000_000
}

extension TraceSpan: FieldList {
    package static var blank: TraceSpan { TraceSpan("", start: 0, microseconds: 0) }

    package mutating func list(_ fields: inout Fields) {
        fields.string("name", &name, most: 64)
        fields.integer("startMicroseconds", &start, in: -Self.longest...Self.longest)
        fields.integer("microseconds", &microseconds, in: 0...Self.longest)
    }
}
