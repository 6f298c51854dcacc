import IPCProtocol
import SharedCache

/// The two kinds of entries; their words name directories and tables.
enum EntryKind: String, CaseIterable {
    /// Files as they were received.
    case originals
    /// Decoded pixels.
    case rasters
}

/// Which entry is meant: where its file lies.
struct EntryName: Hashable {
    let kind: EntryKind
    /// The file's name: letters and digits.
    let word: String

    /// The original of a key; nil when the key is no word of letters and digits, which no path may be made of.
    static func original(key: String) -> EntryName? {
        EntryName(kind: .originals, word: key)
    }

    /// The raster of an original's digest in a form.
    static func raster(original digest: String, form: String) -> EntryName {
        // Digests have one length, so no two pairs are spelled alike.
        EntryName(kind: .rasters, word: SHA256.hexadecimalDigest(of: (digest + form).utf8))!
    }

    /// The entry with this file name; nil when it cannot be one's.
    init?(kind: EntryKind, word: String) {
        let letters = word.utf8.allSatisfy { byte in
            switch byte {
            case UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
                UInt8(ascii: "a")...UInt8(ascii: "z"):
                true
            default: false
            }
        }
        guard letters, (2...128).contains(word.utf8.count) else { return nil }
        self.kind = kind
        self.word = word
    }

    /// The subdirectory, among those of its kind, in which the file lies.
    var prefix: String { String(word.prefix(2)) }
}

/// What a file says about the bytes before its trailer.
struct EntryTrailer: Equatable {
    enum Content: Equatable {
        case original(OriginalRecord)
        /// A raster, and the SHA-256 of its pixels.
        case raster(RasterRecord, digest: String)
    }

    var content: Content
    /// When it was written, in milliseconds since 1970.
    var created: Int

    /// The name that the file must have; nil when its key cannot be one.
    var name: EntryName? {
        switch content {
        case .original(let record): .original(key: record.key)
        case .raster(let record, _): .raster(original: record.original, form: record.form)
        }
    }

    /// How many bytes stand before the trailer.
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

    /// The trailer as it stands in the file.
    var encoded: [UInt8] {
        var writer = JSONWriter()
        writer.object {
            $0.member("created", created)
            switch content {
            case .original(let record): $0.object("original", record.writeMembers)
            case .raster(let record, let digest):
                $0.member("digest", digest)
                $0.object("raster", record.writeMembers)
            }
        }
        return writer.bytes
    }

    init(_ content: Content, created: Int) {
        self.content = content
        self.created = created
    }

    /// Reads a trailer; nil when it is none.
    init?(decoding text: ArraySlice<UInt8>) {
        var (created, digest): (Int?, String?)
        var (original, raster): (OriginalRecord?, RasterRecord?)
        var reader = JSONReader(text)
        do {
            try reader.readMessage { (reader, name) throws(JSONReader.MalformedJSON) in
                switch name {
                case "created": created = try reader.integer(name, in: 0...Envelope.maximumInteger)
                case "digest": digest = try reader.string(name)
                case "original": original = try OriginalRecord(from: &reader, field: name)
                case "raster": raster = try RasterRecord(from: &reader, field: name)
                default: try reader.skip()
                }
            }
        } catch {
            return nil
        }
        guard reader.problem == nil, let created else { return nil }
        switch (original, raster, digest) {
        case (let original?, nil, _): content = .original(original)
        case (nil, let raster?, let digest?): content = .raster(raster, digest: digest)
        default: return nil
        }
        self.created = created
    }
}
