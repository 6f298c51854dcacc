import IPCProtocol
import JSONCoding

/// A JSON value as a tree.
enum JSONTree: Equatable {
    case object([String: JSONTree])
    case array([JSONTree])
    case string(String)
    case number(Double)
    case boolean(Bool)
    case null

    init(reading text: ArraySlice<UInt8>) throws(JSONReader.MalformedJSON) {
        var reader = JSONReader(text)
        var members: [String: JSONTree] = [:]
        try reader.readMessage { (reader, name) throws(JSONReader.MalformedJSON) in
            members[name] = try JSONTree(from: &reader)
        }
        self = .object(members)
    }

    private init(from reader: inout JSONReader) throws(JSONReader.MalformedJSON) {
        var skipping = reader
        try skipping.skip()
        if reader.nextIsObject {
            var members: [String: JSONTree] = [:]
            try reader.readObject { (reader, name) throws(JSONReader.MalformedJSON) in
                members[name] = try JSONTree(from: &reader)
            }
            self = .object(members)
        } else if reader.nextIsArray {
            var elements: [JSONTree] = []
            try reader.readArray { (reader) throws(JSONReader.MalformedJSON) in
                elements.append(try JSONTree(from: &reader))
            }
            self = .array(elements)
        } else if reader.nextIsNull {
            try reader.skip()
            self = .null
        } else if reader.nextIsString {
            self = .string(try reader.readString())
        } else if reader.nextIsBoolean {
            self = .boolean(try reader.readBoolean())
        } else {
            self = .number(try reader.readNumber() ?? .nan)
        }
        expect(skipping.nextIsNull == reader.nextIsNull, "reading and skipping a value consume equally many bytes")
    }

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
