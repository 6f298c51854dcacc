package import HTTPValues
package import IPCProtocol
package import JSONCoding

/// The metadata of an original, as stored in its file on disk.
package struct OriginalRecord: Equatable, Sendable {
    /// The key as letters and digits, used as the file's name.
    package var key: String
    /// The URL, by which `forget` finds the original.
    package var url: String
    /// The user who owns the original; nil when it is shared by all.
    package var owner: UInt32?
    /// The SHA-256 of the bytes, 64 hexadecimal digits.
    package var digest: String
    /// The number of bytes.
    package var bytes: Int
    /// The origin's most recent response header.
    package var response: ResponseRecord
    /// The request fields that the response depends on (`Vary`), in normalized form; nil when it depends on no field.
    package var varyKey: String?

    /// Creates a record.
    package init(
        key: String, url: String, owner: UInt32?, digest: String, bytes: Int, response: ResponseRecord,
        varyKey: String? = nil
    ) {
        self.key = key
        self.url = url
        self.owner = owner
        self.digest = digest
        self.bytes = bytes
        self.response = response
        self.varyKey = varyKey
    }
}

/// A variant of an original, as stored in its file on disk: pixels, or a re-encoded image.
package struct RasterRecord: Equatable, Sendable {
    /// The SHA-256 of the original's bytes, 64 hexadecimal digits.
    package var original: String
    /// The variant's description and the decoder's version; together with `original`, the raster's name.
    package var form: String
    /// The original's header.
    package var header: ImageHeader
    /// The raster's size in pixels.
    package var geometry: PixelGeometry
    /// The length of the file's contents in bytes.
    package var bytes: Int

    /// Creates a raster of the original with that digest; `bytes` defaults to the size of its pixels.
    package init(original: String, form: String, header: ImageHeader, geometry: PixelGeometry, bytes: Int? = nil) {
        self.original = original
        self.form = form
        self.header = header
        self.geometry = geometry
        self.bytes = bytes ?? geometry.bytes
    }
}

extension OriginalRecord {
    /// Writes the members of the record's object.
    package func writeMembers(to writer: inout JSONWriter) {
        writer.member("key", key)
        writer.member("url", url)
        writer.member("owner", owner.map { Int($0) })
        writer.member("digest", digest)
        writer.member("bytes", bytes)
        writer.object("response", response.writeMembers)
        writer.member("varyKey", varyKey)
    }

    /// Reads a record from the object of member `field`; nil, and a note, when something is missing.
    package init?(from reader: inout JSONReader, field: String) throws(JSONReader.MalformedJSON) {
        var (key, url, owner, digest, bytes): (String?, String?, Int?, String?, Int?)
        var (response, varyKey): (ResponseRecord?, String?)
        try reader.object(field) { (reader, name) throws(JSONReader.MalformedJSON) in
            switch name {
            case "key": key = try reader.string(name)
            case "url": url = try reader.string(name)
            case "owner": owner = try reader.integer(name, in: 0...Int(UInt32.max))
            case "digest": digest = try reader.string(name)
            case "bytes": bytes = try reader.integer(name, in: 0...Int.max)
            case "response": response = try ResponseRecord(from: &reader, field: name)
            case "varyKey": varyKey = try reader.string(name)
            default: try reader.skip()
            }
        }
        guard let key, let url, let digest, digest.utf8.count == 64, let bytes, let response else {
            reader.note(field, expected: "a complete record")
            return nil
        }
        self.init(
            key: key, url: url, owner: owner.map { UInt32($0) }, digest: digest, bytes: bytes, response: response,
            varyKey: varyKey)
    }
}

extension RasterRecord {
    /// Writes the members of the record's object.
    package func writeMembers(to writer: inout JSONWriter) {
        writer.member("original", original)
        writer.member("form", form)
        writer.member("format", header.format.rawValue)
        writer.member("sourceWidth", header.geometry.width)
        writer.member("sourceHeight", header.geometry.height)
        writer.member("frameCount", header.frameCount)
        writer.member("width", geometry.width)
        writer.member("height", geometry.height)
        writer.member("bytes", bytes)
        header.placeholder?.writeMembers(to: &writer)
    }

    /// Reads a record from the object of member `field`; nil, and a note, when something is missing.
    package init?(from reader: inout JSONReader, field: String) throws(JSONReader.MalformedJSON) {
        var (original, form, format, frameCount): (String?, String?, ImageFormat?, Int?)
        var (sourceWidth, sourceHeight, width, height): (Int?, Int?, Int?, Int?)
        var (bytes, averageColor, thumbHash): (Int?, String?, String?)
        let side = 1...PixelGeometry.maximumSide
        try reader.object(field) { (reader, name) throws(JSONReader.MalformedJSON) in
            switch name {
            case "original": original = try reader.string(name)
            case "form": form = try reader.string(name)
            case "format": format = try reader.choice(name)
            case "frameCount": frameCount = try reader.integer(name, in: 1...ImageHeader.maximumFrames)
            case "sourceWidth": sourceWidth = try reader.integer(name, in: side)
            case "sourceHeight": sourceHeight = try reader.integer(name, in: side)
            case "width": width = try reader.integer(name, in: side)
            case "height": height = try reader.integer(name, in: side)
            case "bytes": bytes = try reader.integer(name, in: 1...Int.max)
            case "averageColor": averageColor = try reader.string(name)
            case "thumbHash": thumbHash = try reader.string(name)
            default: try reader.skip()
            }
        }
        guard let original, original.utf8.count == 64, let form, let format, let frameCount, let sourceWidth,
            let sourceHeight, let source = PixelGeometry(width: sourceWidth, height: sourceHeight), let width,
            let height,
            let geometry = PixelGeometry(width: width, height: height)
        else {
            reader.note(field, expected: "a complete record")
            return nil
        }
        var header = ImageHeader(format: format, geometry: source, frameCount: frameCount)
        header.placeholder = Placeholder(averageColor: averageColor, thumbHash: thumbHash)
        self.init(original: original, form: form, header: header, geometry: geometry, bytes: bytes)
    }
}
