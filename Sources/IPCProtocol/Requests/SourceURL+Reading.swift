public import HTTPValues
internal import JSONCoding

extension SourceURL {
    /// Reads the member `field`; nil when it is not a loadable URL. `rejection` or the reader's `problem` then has the
    /// reason.
    static func read(
        _ field: String, from reader: inout JSONReader, rejection: inout WireError?
    ) throws(JSONReader.MalformedJSON) -> SourceURL? {
        guard let text = try reader.string(field) else { return nil }
        do throws(InvalidURL) {
            return try SourceURL(text)
        } catch {
            rejection = rejection ?? WireError(error)
            return nil
        }
    }
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
