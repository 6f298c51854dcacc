package import JSONCoding

/// The stored part of a response's header: the fields for computing freshness and for revalidation.
package struct ResponseRecord: Equatable, Sendable {
    /// The status code.
    package var status: Int
    /// The start of the request, in milliseconds since 1970.
    package var requestedAt: Int
    /// The arrival of the complete header, in milliseconds since 1970.
    package var receivedAt: Int
    /// `Date`. This field and those below hold the origin's text; fields of the same name are joined by ", ".
    package var date: String?
    /// `Age`.
    package var age: String?
    /// `Cache-Control`.
    package var cacheControl: String?
    /// `Expires`.
    package var expires: String?
    /// `ETag`.
    package var etag: String?
    /// `Last-Modified`.
    package var lastModified: String?
    /// `Vary`.
    package var vary: String?
    /// `Content-Type`.
    package var contentType: String?
    /// The URL, without a path, of the server that sent the body, if redirects led to another server than the requested
    /// one.
    package var servedBy: String?

    /// Creates a record.
    package init(
        status: Int = 200, requestedAt: Int, receivedAt: Int, date: String? = nil, age: String? = nil,
        cacheControl: String? = nil, expires: String? = nil, etag: String? = nil, lastModified: String? = nil,
        vary: String? = nil, contentType: String? = nil,
        servedBy: String? = nil
    ) {
        self.status = status
        self.requestedAt = requestedAt
        self.receivedAt = receivedAt
        self.date = date
        self.age = age
        self.cacheControl = cacheControl
        self.expires = expires
        self.etag = etag
        self.lastModified = lastModified
        self.vary = vary
        self.contentType = contentType
        self.servedBy = servedBy
    }

    /// Writes the members of the record's object.
    package func writeMembers(to writer: inout JSONWriter) {
        writer.member("status", status)
        writer.member("requestedAt", requestedAt)
        writer.member("receivedAt", receivedAt)
        writer.member("date", date)
        writer.member("age", age)
        writer.member("cacheControl", cacheControl)
        writer.member("expires", expires)
        writer.member("etag", etag)
        writer.member("lastModified", lastModified)
        writer.member("vary", vary)
        writer.member("contentType", contentType)
        writer.member("servedBy", servedBy)
    }

    /// Reads a record from the object of member `field`; nil, and a note, when something is missing.
    package init?(from reader: inout JSONReader, field: String) throws(JSONReader.MalformedJSON) {
        var (status, requestedAt, receivedAt): (Int?, Int?, Int?)
        self.init(requestedAt: 0, receivedAt: 0)
        try reader.object(field) { (reader, name) throws(JSONReader.MalformedJSON) in
            switch name {
            case "status": status = try reader.integer(name, in: 100...999)
            case "requestedAt": requestedAt = try reader.integer(name, in: 0...JSONReader.maximumInteger)
            case "receivedAt": receivedAt = try reader.integer(name, in: 0...JSONReader.maximumInteger)
            case "date": date = try reader.string(name)
            case "age": age = try reader.string(name)
            case "cacheControl": cacheControl = try reader.string(name)
            case "expires": expires = try reader.string(name)
            case "etag": etag = try reader.string(name)
            case "lastModified": lastModified = try reader.string(name)
            case "vary": vary = try reader.string(name)
            case "contentType": contentType = try reader.string(name)
            case "servedBy": servedBy = try reader.string(name)
            default: try reader.skip()
            }
        }
        guard let status, let requestedAt, let receivedAt else {
            reader.note(field, expected: "a complete record")
            return nil
        }
        self.status = status
        self.requestedAt = requestedAt
        self.receivedAt = receivedAt
    }
}
