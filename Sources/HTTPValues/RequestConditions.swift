package import JSONCoding

/// The validators of a stored response, sent so that its origin answers 304 while it is still current (RFC 9110,
/// section 13.1).
package struct RequestConditions: Equatable, Sendable {
    /// The value of `If-None-Match`.
    package var etag: String?
    /// The value of `If-Modified-Since`.
    package var lastModified: String?

    /// Creates conditions; at least one must be given.
    package init(etag: String? = nil, lastModified: String? = nil) {
        self.etag = etag
        self.lastModified = lastModified
    }

    /// Reads conditions from the object of member `field`.
    package init(from reader: inout JSONReader, field: String) throws(JSONReader.MalformedJSON) {
        self.init()
        try reader.object(field) { (reader, name) throws(JSONReader.MalformedJSON) in
            switch name {
            case "etag": etag = try reader.string(name)
            case "lastModified": lastModified = try reader.string(name)
            default: try reader.skip()
            }
        }
    }
}
