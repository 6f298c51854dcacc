/// The supported directives of a response's `Cache-Control` (RFC 9111, section 5.2.2; RFC 5861; RFC 8246).
///
/// Parsing is tolerant, and resolves doubt against caching: seconds that are not a number, or that are given twice with
/// different values, are 0. A directive restricted to a field name, as in `no-cache="set-cookie"`, counts as if
/// unrestricted.
struct CacheControl: Equatable, Sendable {
    /// The maximum number of seconds; larger values are clamped to it (RFC 9111, section 1.2.2).
    static let mostSeconds = 1 << 31

    /// The supported directives that are present, each with its seconds, which have a meaning for some of them.
    private var directives: [Directive: Int] = [:]

    enum Directive: String, Sendable {
        case maxAge = "max-age"
        case sharedMaxAge = "s-maxage"
        case noStore = "no-store"
        case noCache = "no-cache"
        case `private`
        case `public`
        case mustRevalidate = "must-revalidate"
        case proxyRevalidate = "proxy-revalidate"
        case mustUnderstand = "must-understand"
        case immutable
        case staleWhileRevalidate = "stale-while-revalidate"
        case staleIfError = "stale-if-error"
    }

    /// Parses a field's value; nil stands for a response without the field.
    init(_ field: String?) {
        var rest = Array((field ?? "").utf8)[...]
        while !rest.isEmpty {
            let name = rest.prefix { $0 != UInt8(ascii: ",") && $0 != UInt8(ascii: "=") }
            rest = rest[name.endIndex...]
            let argument = rest.first == UInt8(ascii: "=") ? Self.takeArgument(from: &rest) : ""
            rest = rest.drop { $0 != UInt8(ascii: ",") }.dropFirst()
            guard let directive = Directive(rawValue: text(name).trimming.lowercased()) else { continue }
            let seconds = min(argument.decimal ?? 0, Self.mostSeconds)
            directives[directive] = directives[directive, default: seconds] == seconds ? seconds : 0
        }
    }

    func contains(_ directive: Directive) -> Bool { directives[directive] != nil }

    /// The seconds of a directive; nil without it.
    subscript(directive: Directive) -> Int? { directives[directive] }

    /// Consumes "=" and a token or a quoted string (RFC 9110, section 5.6.4). An unclosed quote is treated as an
    /// ordinary character, so that no directive after it is lost.
    private static func takeArgument(from rest: inout ArraySlice<UInt8>) -> String {
        rest = rest.dropFirst().drop { $0 == UInt8(ascii: " ") || $0 == UInt8(ascii: "\t") }
        if rest.first == UInt8(ascii: "\"") {
            var content: [UInt8] = []
            var index = rest.startIndex + 1
            while index < rest.endIndex {
                if rest[index] == UInt8(ascii: "\"") {
                    rest = rest[(index + 1)...]
                    return text(content[...])
                }
                if rest[index] == UInt8(ascii: "\\"), index + 1 < rest.endIndex { index += 1 }
                content.append(rest[index])
                index += 1
            }
        }
        let token = rest.prefix { $0 != UInt8(ascii: ",") }
        rest = rest[token.endIndex...]
        return String(text(token).trimming)
    }
}

private func text(_ bytes: ArraySlice<UInt8>) -> String { String(decoding: bytes, as: UTF8.self) }
