public import HTTPValues
internal import JSONCoding

extension Fields {
    /// A URL that can be loaded; another is refused with a `WireError`.
    mutating func url(_ name: StaticString, _ value: inout SourceURL) {
        var text = value.text
        string(name, &text, most: SourceURL.maximumLength)
        if isReading, problem == nil { value = accepted(text) ?? value }
    }

    /// A URL that can be loaded, absent when it is nil; another is refused with a `WireError`.
    mutating func url(_ name: StaticString, _ value: inout SourceURL?) {
        var text = value?.text
        string(name, &text, most: SourceURL.maximumLength)
        if isReading, let text { value = accepted(text) }
    }

    /// An array of at most `most` URLs of together at most `bytes` bytes.
    mutating func urls(_ name: StaticString, _ values: inout [SourceURL], most: Int, bytes: Int) {
        var texts = values.map(\.text)
        strings(name, &texts, most: most, bytes: bytes)
        guard isReading else { return }
        values = []
        var (left, international) = (bytes, InternationalHosts())
        for text in texts {
            guard let url = accepted(text, &international) else { return }
            // The canonical spelling may be longer.
            left -= url.text.utf8.count
            if left < 0 { return note("\(name)", expected: "strings of together at most \(bytes) bytes") }
            values.append(url)
        }
    }

    private mutating func accepted(_ text: String) -> SourceURL? {
        var international = InternationalHosts()
        return accepted(text, &international)
    }

    private mutating func accepted(_ text: String, _ international: inout InternationalHosts) -> SourceURL? {
        do throws(InvalidURL) {
            return try SourceURL(text, &international)
        } catch {
            refuse(with: WireError(error))
            return nil
        }
    }
}

extension SourceURL {
    /// The URL that reading starts from.
    static let blank = SourceURL(canonical: "")
}

extension WireError {
    /// Creates the error for a request with an invalid URL: `unsupported-scheme` or `bad-request`.
    public init(_ invalid: InvalidURL) {
        switch invalid.reason {
        case .unsupportedScheme: self.init(.unsupportedScheme, invalid.message)
        case .malformed: self.init(.badRequest, invalid.message)
        }
    }
}
