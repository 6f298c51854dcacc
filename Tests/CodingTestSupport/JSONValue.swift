internal import Foundation
package import JSONCoding

/// A JSON value as a tree, built by the reader under test or by Foundation, to compare the two.
package enum JSONValue: Equatable {
    case object([String: JSONValue])
    case array([JSONValue])
    case string(String)
    case number(Double)
    case boolean(Bool)
    case null

    /// The object that `JSONReader` finds in `text`; of members with the same name the last.
    package init(reading text: [UInt8]) throws(JSONReader.MalformedJSON) {
        var reader = JSONReader(text[...])
        var members: [String: JSONValue] = [:]
        try reader.readMessage { (reader, name) throws(JSONReader.MalformedJSON) in
            members[name] = try JSONValue(from: &reader)
        }
        self = .object(members)
    }

    private init(from reader: inout JSONReader) throws(JSONReader.MalformedJSON) {
        if reader.nextIsObject {
            var members: [String: JSONValue] = [:]
            try reader.readObject { (reader, name) throws(JSONReader.MalformedJSON) in
                members[name] = try JSONValue(from: &reader)
            }
            self = .object(members)
        } else if reader.nextIsArray {
            var elements: [JSONValue] = []
            try reader.readArray { (reader) throws(JSONReader.MalformedJSON) in
                elements.append(try JSONValue(from: &reader))
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
    }

    /// The object that Foundation finds in `text`; nil when it refuses it.
    package init?(foundation text: [UInt8]) {
        guard let tree = try? JSONSerialization.jsonObject(with: Data(text)), let value = JSONValue(tree: tree) else {
            return nil
        }
        self = value
    }

    private init?(tree: Any) {
        switch tree {
        case let members as [String: Any]: self = .object(members.compactMapValues { JSONValue(tree: $0) })
        case let elements as [Any]: self = .array(elements.compactMap { JSONValue(tree: $0) })
        case let string as String: self = .string(string)
        // A boolean is a number to Foundation, told apart by its C type alone.
        case let number as NSNumber:
            self =
                number === NSNumber(value: true) || number === NSNumber(value: false)
                ? .boolean(number.boolValue) : .number(number.doubleValue)
        case is NSNull: self = .null
        default: return nil
        }
    }

    /// Equality of strings by their scalars: canonically equivalent spellings are different texts.
    package static func == (left: JSONValue, right: JSONValue) -> Bool {
        switch (left, right) {
        case (.object(let left), .object(let right)):
            left.count == right.count && left.allSatisfy { right[$0.key] == $0.value }
        case (.array(let left), .array(let right)):
            left.count == right.count && zip(left, right).allSatisfy { $0 == $1 }
        case (.string(let left), .string(let right)): left.unicodeScalars.elementsEqual(right.unicodeScalars)
        // Foundation goes through a decimal number and may differ in the last bits.
        case (.number(let left), .number(let right)): abs(left - right) <= abs(right) * 0x1p-50
        case (.boolean(let left), .boolean(let right)): left == right
        case (.null, .null): true
        default: false
        }
    }
}
