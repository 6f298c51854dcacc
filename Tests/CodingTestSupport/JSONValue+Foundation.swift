internal import Foundation

// The value that Foundation finds, to compare the two.
extension JSONValue {
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

    /// Whether both are the same, strings by their scalars: canonically equivalent spellings are different texts.
    package func agrees(with other: JSONValue) -> Bool {
        switch (self, other) {
        case (.object(let left), .object(let right)):
            left.count == right.count && left.allSatisfy { right[$0.key]?.agrees(with: $0.value) == true }
        case (.array(let left), .array(let right)):
            left.count == right.count && zip(left, right).allSatisfy { $0.agrees(with: $1) }
        case (.string(let left), .string(let right)): left.unicodeScalars.elementsEqual(right.unicodeScalars)
        // Foundation goes through a decimal number and may differ in the last bits.
        case (.number(let left), .number(let right)): abs(left - right) <= abs(right) * 0x1p-50
        case (.boolean(let left), .boolean(let right)): left == right
        case (.null, .null): true
        default: false
        }
    }
}
