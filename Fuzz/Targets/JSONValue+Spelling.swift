extension JSONValue {
    /// Writes the value in another form: every character escaped, whitespace wherever it is allowed.
    var spelled: [UInt8] {
        var text = ""
        spell(into: &text)
        return Array(text.utf8)
    }

    private func spell(into text: inout String) {
        switch self {
        case .object(let members):
            text += "\t{ "
            for (index, member) in members.enumerated() {
                text += index == 0 ? "" : " ,\n"
                Self.quote(member.key, into: &text)
                text += "\r: "
                member.value.spell(into: &text)
            }
            text += " } "
        case .array(let elements):
            text += "[ "
            for (index, element) in elements.enumerated() {
                text += index == 0 ? "" : " , "
                element.spell(into: &text)
            }
            text += " ]"
        case .string(let string): Self.quote(string, into: &text)
        // A number beyond the range is infinite, which only a large exponent can express.
        case .number(let number):
            text += number.isFinite ? number.description : number < 0 ? "-9E999" : "9E999"
        case .boolean(let value): text += value ? "true" : "false"
        case .null: text += "null"
        }
    }

    private static func quote(_ string: String, into text: inout String) {
        text += "\""
        for unit in string.utf16 {
            let digits = String(unit, radix: 16)
            text += "\\u" + String(repeating: "0", count: 4 - digits.count) + digits
        }
        text += "\""
    }
}
