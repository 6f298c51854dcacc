import Digests
import DiskRecords
import JSONCoding
import SystemValues

/// The two kinds of entries. The raw values name directories and tables.
enum EntryKind: String, CaseIterable {
    /// Encoded bytes as received.
    case originals
    /// Decoded pixels.
    case rasters
}

/// The identity of an entry, which determines the path of its file.
struct EntryName: Hashable {
    let kind: EntryKind
    /// The name of the file: 2 to 128 letters and digits.
    let fileName: String

    /// The original with a key; nil when the key has characters that are not allowed in a file name.
    static func original(key: String) -> EntryName? { EntryName(kind: .originals, fileName: key) }

    static func raster(original digest: String, form: String) -> EntryName {
        // Digests have one length, so no two pairs of digest and form concatenate to the same text.
        EntryName(kind: .rasters, fileName: SHA256.hexadecimalDigest(of: (digest + form).utf8))!
    }

    /// The entry with this file name; nil when the name is invalid.
    init?(kind: EntryKind, fileName: String) {
        let bytes = fileName.utf8
        guard bytes.allSatisfy(\.isASCIIAlphanumeric), (2...128).contains(bytes.count) else { return nil }
        self.kind = kind
        self.fileName = fileName
    }

    /// The name of the subdirectory of the kind's directory that holds the file.
    var prefix: String { String(fileName.prefix(2)) }
}

/// The description of a body, which follows the body in the file.
struct EntryTrailer: Equatable {
    enum Content: Equatable {
        case original(OriginalRecord)
        /// A raster, and the SHA-256 of its pixels.
        case raster(RasterRecord, digest: String)
    }

    var content: Content
    /// The time of writing, in milliseconds since 1970.
    var created: Int

    /// The name that the file must have; nil when the record's key is invalid.
    var name: EntryName? {
        switch content {
        case .original(let record): .original(key: record.key)
        case .raster(let record, _): .raster(original: record.original, form: record.form)
        }
    }

    /// Whether it is an original of one user alone. A uid means another user on another machine.
    var isOwned: Bool { if case .original(let record) = content { record.owner != nil } else { false } }

    /// The number of bytes before the trailer.
    var bodySize: Int {
        switch content {
        case .original(let record): record.bytes
        case .raster(let record, _): record.bytes
        }
    }

    /// Their SHA-256.
    var bodyDigest: String {
        switch content {
        case .original(let record): record.digest
        case .raster(_, let digest): digest
        }
    }

    init(_ content: Content, created: Int) {
        self.content = content
        self.created = created
    }
}

/// The JSON text as in the file.
extension EntryTrailer: FieldList {
    static var blank: EntryTrailer { EntryTrailer(.original(.blank), created: 0) }

    mutating func list(_ fields: inout Fields) {
        var (original, raster, digest): (OriginalRecord?, RasterRecord?, String?)
        if !fields.isReading {
            switch content {
            case .original(let record): original = record
            case .raster(let record, let bodyDigest): (raster, digest) = (record, bodyDigest)
            }
        }
        fields.integer("created", &created, in: 0...JSONReader.maximumInteger)
        fields.object("original", &original)
        fields.string("digest", &digest)
        fields.object("raster", &raster)
        switch (original, raster, digest) {
        case (let record?, nil, _): content = .original(record)
        case (nil, let record?, let digest?): content = .raster(record, digest: digest)
        default: fields.note("original", expected: "present, or a raster and its digest")
        }
    }
}
