package import JSONCoding

/// A JSON value as a tree, built by the reader under test. The fuzz targets have it, too.
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
        try reader.readObject { (reader, name) throws(JSONReader.MalformedJSON) in
            members[name] = try JSONValue(from: &reader)
        }
        try reader.expectEnd()
        self = .object(members)
    }

    private init(from reader: inout JSONReader) throws(JSONReader.MalformedJSON) {
        var skipping = reader
        try skipping.skip()
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
        precondition(
            skipping.nextIsNull == reader.nextIsNull, "reading and skipping a value consume equally many bytes")
    }
}
