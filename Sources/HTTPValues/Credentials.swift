package import JSONCoding

/// A header field of a request. Fields are compared byte by byte.
public struct HeaderField: Hashable, Sendable {
    /// The field's name, in lower case in an accepted request.
    public var name: String
    /// The field's value.
    public var value: String

    /// Creates a field.
    public init(name: String, value: String) {
        self.name = name
        self.value = value
    }

    public static func == (left: HeaderField, right: HeaderField) -> Bool {
        left.name.hasSameBytes(as: right.name) && left.value.hasSameBytes(as: right.value)
    }
}

/// A user name and password for HTTP's Basic scheme (RFC 7617). They are compared byte by byte.
public struct Credentials: Hashable, Sendable {
    /// The user name, without a colon.
    public var username: String
    /// The password.
    public var password: String

    /// The maximum length of the user name and of the password, in bytes.
    package static let longestPart = 1024

    /// Creates credentials.
    public init(username: String, password: String) {
        self.username = username
        self.password = password
    }

    public static func == (left: Credentials, right: Credentials) -> Bool {
        left.username.hasSameBytes(as: right.username) && left.password.hasSameBytes(as: right.password)
    }
}

extension HeaderField: FieldList {
    package static var blank: HeaderField { HeaderField(name: "", value: "") }

    package mutating func list(_ fields: inout Fields) {
        fields.string("name", &name)
        fields.string("value", &value)
    }
}

extension Credentials: FieldList {
    package static var blank: Credentials { Credentials(username: "", password: "") }

    package mutating func list(_ fields: inout Fields) {
        fields.string("username", &username, most: Self.longestPart)
        fields.string("password", &password, most: Self.longestPart)
        guard fields.isReading else { return }
        if username.utf8.contains(UInt8(ascii: ":")) { fields.note("username", expected: "without a colon") }
        for (name, text) in [("username", username), ("password", password)]
        where text.utf8.contains(where: { $0 < 0x20 || $0 == 0x7F }) {
            fields.note(name, expected: "without control characters")
        }
    }
}
