/// Malformed JSON: the expected token, and the offset.
package struct MalformedJSON: Error, Equatable {
    package let expected: String
    /// The offset from the first byte of the text.
    package let offset: Int
}
