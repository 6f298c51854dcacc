/// The selection of a stored response by the request's fields (RFC 9111, section 4.1).
package enum Vary {
    /// Returns the names in a `Vary` field in lower case, sorted, without duplicates; nil for "*", which never matches.
    package static func names(_ vary: String?) -> [String]? {
        let names = Set((vary ?? "").split(separator: ",").map { $0.trimming.lowercased() })
        return names.contains("*") ? nil : names.subtracting([""]).sorted()
    }

    /// Returns the request fields named by a response's `Vary`, in normalized form: two requests match when their keys
    /// are equal. `value` returns the value actually sent for a lower-case name. Nil matches nothing.
    package static func key(_ vary: String?, _ value: (_ name: String) -> String?) -> String? {
        names(vary)?.reduce(into: "") { key, name in
            guard let value = value(name) else { return }
            // Line ends count as whitespace too, so that a value cannot imitate a line of the key.
            let words = value.utf8.split { $0 <= 0x20 }.map { String($0) ?? "" }
            key += "\(name): \(words.joined(separator: " "))\n"
        }
    }
}
