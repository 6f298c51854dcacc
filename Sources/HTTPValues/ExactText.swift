internal import Glibc

/// A text that equals another only if both have the same bytes. Strings are equal also if only Unicode considers them
/// equivalent ("\u{E9}" and "e\u{301}"), so keys that clients or origins choose are compared as this.
package struct ExactText: Hashable, Sendable {
    package let text: String

    package init(_ text: String) {
        self.text = text
    }

    package static func == (left: ExactText, right: ExactText) -> Bool { left.text.hasSameBytes(as: right.text) }
}

extension String {
    /// Whether both have the same bytes in UTF-8.
    package func hasSameBytes(as other: String) -> Bool { utf8Span.span.hasSameBytes(as: other.utf8Span.span) }
}

extension String? {
    /// Whether both have the same bytes in UTF-8, or both are nil.
    package func hasSameBytes(as other: String?) -> Bool {
        guard let self, let other else { return self == nil && other == nil }
        return self.hasSameBytes(as: other)
    }
}

extension ArraySlice<UInt8> {
    /// Whether both hold the same bytes.
    package func hasSameBytes(as other: [UInt8]) -> Bool { span.hasSameBytes(as: other.span) }
}

extension Span<UInt8> {
    func hasSameBytes(as other: Span<UInt8>) -> Bool {
        guard count == other.count else { return false }
        return unsafe withUnsafeBytes { own in
            unsafe other.withUnsafeBytes { unsafe count == 0 || memcmp($0.baseAddress!, own.baseAddress!, count) == 0 }
        }
    }
}
