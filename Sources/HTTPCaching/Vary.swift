/// The selection of a stored response by the request's fields (RFC 9111, section 4.1).
package enum Vary {
    /// The names in a `Vary` field in lower case, sorted, none twice; nil when it says that nothing ever matches.
    package static func names(_ vary: String?) -> [String]? {
        let names = Set((vary ?? "").split(separator: ",").map { $0.trimming.lowercased() })
        return names.contains("*") ? nil : names.subtracting([""]).sorted()
    }

    /// The fields that a response's `Vary` names, as they stand in a request, in one form: two requests match when
    /// theirs are equal. `value` gives the field of a name in lower case as it is really sent. Nil matches nothing.
    package static func key(_ vary: String?, _ value: (_ name: String) -> String?) -> String? {
        names(vary)?.reduce(into: "") { key, name in
            guard let value = value(name) else { return }
            // Line ends count as space too, lest a value look like a line.
            let words = value.utf8.split { $0 <= 0x20 }.map { String($0) ?? "" }
            key += "\(name): \(words.joined(separator: " "))\n"
        }
    }
}
