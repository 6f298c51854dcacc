/// An error: a text is not the URL of an original.
public struct InvalidURL: Error, Hashable, Sendable {
    /// The kind of fault.
    public enum Reason: Hashable, Sendable {
        /// The scheme is neither http nor https.
        case unsupportedScheme
        /// Anything else: no host, a control character, too many bytes.
        case malformed
    }

    /// The kind of fault.
    public let reason: Reason
    /// The message for people, one English sentence.
    public let message: String

    package init(_ reason: Reason, _ message: String) {
        self.reason = reason
        self.message = message
    }
}
