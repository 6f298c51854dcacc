package import JSONCoding

/// A header field of a request.
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
}

/// A user name and password for HTTP's Basic scheme (RFC 7617).
public struct Credentials: Hashable, Sendable {
    /// The user name, without a colon.
    public var username: String
    /// The password.
    public var password: String

    /// Creates credentials.
    public init(username: String, password: String) {
        self.username = username
        self.password = password
    }

    /// Reads credentials from the object of member `field`; nil, and a note, when the name or the password is missing.
    package init?(from reader: inout JSONReader, field: String) throws(JSONReader.MalformedJSON) {
        var (username, password): (String?, String?)
        try reader.object(field) { (reader, name) throws(JSONReader.MalformedJSON) in
            switch name {
            case "username": username = try reader.string("\(field).username")
            case "password": password = try reader.string("\(field).password")
            default: try reader.skip()
            }
        }
        guard let username, let password else {
            reader.note(field, expected: "an object with username and password")
            return nil
        }
        if username.utf8.contains(UInt8(ascii: ":")) { reader.note("\(field).username", expected: "without a colon") }
        if (username + password).utf8.contains(where: { $0 < 0x20 || $0 == 0x7F }) {
            reader.note(field, expected: "without control characters")
        }
        self.init(username: username, password: password)
    }
}
