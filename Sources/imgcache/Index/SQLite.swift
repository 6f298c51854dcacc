import CSQLite
import SystemValues

struct SQLiteError: Error, CustomStringConvertible {
    let code: Int32
    let description: String

    /// A database that this program must not use.
    static func mismatch(_ description: String) -> SQLiteError {
        SQLiteError(code: SQLITE_NOTADB, description: description)
    }

    static let foreign = SQLiteError(code: SQLITE_AUTH, description: "it is the database of another program")

    /// Whether the database is another program's, and must stay as it is.
    var isForeign: Bool { code == SQLITE_AUTH }

    /// Whether the file is damaged, so that a new one helps. Any other error is the disk's.
    var isDamage: Bool {
        ![
            SQLITE_FULL, SQLITE_IOERR, SQLITE_READONLY, SQLITE_CANTOPEN, SQLITE_PERM, SQLITE_NOMEM, SQLITE_BUSY,
            SQLITE_AUTH,
        ]
        .contains(code & 0xFF) || code == SQLiteError.shortRead
    }

    var isLackOfSpace: Bool { code & 0xFF == SQLITE_FULL }

    /// SQLITE_IOERR_SHORT_READ, a macro that is not imported: the file is shorter than its header says.
    private static let shortRead = SQLITE_IOERR | 2 << 8
}

extension SQLiteError {
    /// The error of a closure that throws no others, for which the compiler infers `any Error`.
    init(_ error: any Error) { self = error as? SQLiteError ?? .mismatch("\(error)") }

    /// The last error of a connection; without one, that of a code.
    fileprivate init(_ connection: OpaquePointer?, code: Int32) {
        self.code = unsafe connection == nil ? code : sqlite3_extended_errcode(connection)
        description = unsafe String(cString: connection == nil ? sqlite3_errstr(code) : sqlite3_errmsg(connection))
    }
}

@safe
final class SQLiteConnection {
    private let handle: OpaquePointer

    /// Opens or creates the database at `path`; ":memory:" stands for one without a file.
    convenience init(path: String) throws(SQLiteError) {
        try self.init(name: path, flags: SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE)
    }

    /// Opens the database at `path` to read it as it is now: its write-ahead log is not read, and nothing is locked or
    /// written. After a change by another process, reading may fail, and the database must be opened again.
    convenience init(readingStill path: String) throws(SQLiteError) {
        // In an URI all bytes but letters, digits and slashes may have a meaning.
        let name = path.utf8.map { byte in
            byte.isASCIIAlphanumeric || byte == UInt8(ascii: "/")
                ? String(Character(Unicode.Scalar(byte))) : (byte < 16 ? "%0" : "%") + String(byte, radix: 16)
        }.joined()
        try self.init(name: "file:\(name)?immutable=1", flags: SQLITE_OPEN_READONLY | SQLITE_OPEN_URI)
    }

    private init(name: String, flags: Int32) throws(SQLiteError) {
        var opened: OpaquePointer?
        let flags = flags | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE
        let code = unsafe sqlite3_open_v2(name, &opened, flags, nil)
        guard code == SQLITE_OK, let opened = unsafe opened else {
            let error = unsafe SQLiteError(opened, code: code)
            unsafe sqlite3_close_v2(opened)
            throw error
        }
        unsafe handle = opened
        // Of a damaged or hostile database, no longer value is read into memory.
        unsafe sqlite3_limit(handle, SQLITE_LIMIT_LENGTH, Self.longestValue)
    }

    /// The bytes of the longest value: more than a small entry, and than the longest text of a row.
    private static let longestValue: Int32 = 4 << 20

    /// Lets SQLite do without locks and statistics, because this process has one thread, and use the paths of databases
    /// as they are, with links: a database that is itself a link is not opened. No database must have been opened yet.
    static func configure() {
        _ = csqlite_use_one_thread()
        _ = csqlite_keep_paths()
    }

    deinit {
        // Statements may still exist; SQLite closes the connection with the last of them.
        unsafe sqlite3_close_v2(handle)
    }

    func execute(_ sql: String) throws(SQLiteError) {
        let code = unsafe sqlite3_exec(handle, sql, nil, nil, nil)
        if code != SQLITE_OK { throw unsafe SQLiteError(handle, code: code) }
    }

    /// Frees the pages that the connection has read and keeps. They are read again when they are needed.
    func releaseMemory() { _ = unsafe sqlite3_db_release_memory(handle) }

    /// Compiles a statement that is used many times.
    func prepare(_ sql: String) throws(SQLiteError) -> SQLiteStatement {
        var statement: OpaquePointer?
        let code = unsafe sqlite3_prepare_v3(handle, sql, -1, UInt32(SQLITE_PREPARE_PERSISTENT), &statement, nil)
        guard code == SQLITE_OK, let statement = unsafe statement else {
            throw unsafe SQLiteError(handle, code: code)
        }
        return unsafe SQLiteStatement(owning: statement)
    }

    var isInTransaction: Bool { unsafe sqlite3_get_autocommit(handle) == 0 }

    var lastRow: Int { Int(unsafe sqlite3_last_insert_rowid(handle)) }

    /// The number of rows that the last statement changed.
    var changes: Int { Int(unsafe sqlite3_changes(handle)) }

    /// The first column of the first row of `sql`, as an integer; nil when there is no row.
    func integer(_ sql: String) throws(SQLiteError) -> Int? {
        try prepare(sql).first([]) { $0.integer(0) }
    }
}

enum SQLiteValue {
    case text(String)
    case integer(Int)
    case bytes([UInt8])
    case null
}

@safe
struct SQLiteStatement: ~Copyable {
    private let handle: OpaquePointer

    fileprivate init(owning handle: OpaquePointer) { unsafe self.handle = handle }

    deinit { unsafe sqlite3_finalize(handle) }

    /// One row of a result, valid until the next one.
    @safe
    struct Row: ~Copyable {
        fileprivate let handle: OpaquePointer

        fileprivate init(handle: OpaquePointer) { unsafe self.handle = handle }

        func integer(_ column: Int32) -> Int { Int(unsafe sqlite3_column_int64(handle, column)) }

        func byteCount(_ column: Int32) -> Int { Int(unsafe sqlite3_column_bytes(handle, column)) }

        func bytes(_ column: Int32) -> [UInt8] {
            guard let bytes = unsafe sqlite3_column_blob(handle, column) else { return [] }
            let count = Int(unsafe sqlite3_column_bytes(handle, column))
            return unsafe Array(UnsafeRawBufferPointer(start: bytes, count: count))
        }

        func text(_ column: Int32) -> String {
            guard let text = unsafe sqlite3_column_text(handle, column) else { return "" }
            return unsafe String(cString: text)
        }
    }

    borrowing func run(_ values: [SQLiteValue]) throws(SQLiteError) {
        try forEach(values) { _ in true }
    }

    /// Runs the statement and returns what `read` makes of its first row; nil without a row.
    borrowing func first<Value>(
        _ values: [SQLiteValue], _ read: (borrowing Row) -> Value
    ) throws(SQLiteError) -> Value? {
        var first: Value?
        try forEach(values) { row in
            first = read(row)
            return false
        }
        return first
    }

    borrowing func map<Value>(
        _ values: [SQLiteValue], _ read: (borrowing Row) -> Value
    ) throws(SQLiteError) -> [Value] {
        var all: [Value] = []
        try forEach(values) { row in
            all.append(read(row))
            return true
        }
        return all
    }

    /// Runs the statement and passes each row to `body`, until that returns false.
    private borrowing func forEach(_ values: [SQLiteValue], _ body: (borrowing Row) -> Bool) throws(SQLiteError) {
        defer {
            unsafe sqlite3_reset(handle)
            unsafe sqlite3_clear_bindings(handle)
        }
        for (index, value) in values.enumerated() { try bind(value, at: Int32(index + 1)) }
        while true {
            let code = unsafe sqlite3_step(handle)
            switch code {
            case SQLITE_ROW: if unsafe !body(Row(handle: handle)) { return }
            case SQLITE_DONE: return
            default: throw unsafe SQLiteError(sqlite3_db_handle(handle), code: code)
            }
        }
    }

    private borrowing func bind(_ value: SQLiteValue, at index: Int32) throws(SQLiteError) {
        let code =
            switch value {
            case .integer(let integer): unsafe sqlite3_bind_int64(handle, index, Int64(integer))
            case .null: unsafe sqlite3_bind_null(handle, index)
            case .bytes(let bytes):
                unsafe bytes.withUnsafeBytes {
                    unsafe sqlite3_bind_blob(handle, index, $0.baseAddress, Int32($0.count), Self.copied)
                }
            case .text(let text): unsafe sqlite3_bind_text(handle, index, text, -1, Self.copied)
            }
        if code != SQLITE_OK { throw unsafe SQLiteError(sqlite3_db_handle(handle), code: code) }
    }

    /// SQLITE_TRANSIENT, a cast that Swift does not import: SQLite copies the bytes at once.
    private static var copied: sqlite3_destructor_type {
        unsafe unsafeBitCast(-1, to: sqlite3_destructor_type.self)
    }
}
