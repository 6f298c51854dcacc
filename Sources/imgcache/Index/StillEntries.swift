import LinuxSystem

/// The small entries of a directory that cannot be written, or is another process's: the database is read as it was
/// when its log was last moved to it, and opened again when its file has changed. Nothing is written or locked.
final class StillEntries {
    private let path: String
    private var file: FileSystem.Status?
    private var reader: Reader?

    private final class Reader {
        let originals, rasters, urls: SQLiteStatement

        init(_ path: String) throws(SQLiteError) {
            let connection = try SQLiteConnection(readingStill: path)
            try connection.execute("PRAGMA cell_size_check = ON; PRAGMA trusted_schema = OFF;")
            originals = try connection.prepare(Self.query(.originals))
            rasters = try connection.prepare(Self.query(.rasters))
            urls = try connection.prepare("SELECT 1 FROM originals WHERE url = ? LIMIT 1")
        }

        private static func query(_ kind: EntryKind) -> String {
            """
            SELECT bytes, used FROM \(kind) JOIN \(kind)_contents USING (id) JOIN \(kind)_uses USING (id) WHERE word = ?
            """
        }
    }

    init(path: String) { self.path = path }

    func close() { (file, reader) = (nil, nil) }

    var mayExist: Bool { ((try? FileSystem.status(of: path)) ?? nil) != nil }

    /// The reader of the present file; nil without one that can be read.
    private func current() -> Reader? {
        guard let present = (try? FileSystem.status(of: path)) ?? nil, present.isRegular else {
            close()
            return nil
        }
        if file.map({ !$0.isSameFile(as: present) || $0.size != present.size || $0.modified != present.modified })
            ?? true
        {
            (file, reader) = (present, try? Reader(path))
        }
        return reader
    }

    /// Whether there is an original of a URL, or it cannot be told.
    func mayHaveOriginal(url: String) -> Bool {
        guard let reader = current() else { return mayExist }
        do throws(SQLiteError) {
            return try reader.urls.first([.text(url)]) { _ in true } ?? false
        } catch {
            close()
            return true
        }
    }

    /// The contents of an entry, and its last use; nil when it is missing, or cannot be read.
    func contents(of name: EntryName) -> (bytes: [UInt8], used: Int)? {
        guard let reader = current() else { return nil }
        do throws(SQLiteError) {
            let read = { (row: borrowing SQLiteStatement.Row) in
                row.byteCount(0) <= StoreOptions.largestSmallEntry ? (row.bytes(0), row.integer(1)) : nil
            }
            return switch name.kind {
            case .originals: try reader.originals.first([.text(name.fileName)], read) ?? nil
            case .rasters: try reader.rasters.first([.text(name.fileName)], read) ?? nil
            }
        } catch {
            // It may have been changed while it was read.
            close()
            return nil
        }
    }
}
