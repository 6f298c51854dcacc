import CSQLite

/// A failed call of SQLite.
struct SQLiteError: Error, CustomStringConvertible {
    /// The extended result code.
    let code: Int32
    /// SQLite's message.
    let description: String

    init(code: Int32, description: String) {
        self.code = code
        self.description = description
    }

    fileprivate init(_ connection: OpaquePointer?, code: Int32) {
        self.code = unsafe connection == nil ? code : sqlite3_extended_errcode(connection)
        description = unsafe String(cString: connection == nil ? sqlite3_errstr(code) : sqlite3_errmsg(connection))
    }

    /// A database that this program must not use.
    static func mismatch(_ description: String) -> SQLiteError {
        SQLiteError(code: SQLITE_NOTADB, description: description)
    }

    /// Whether the file is damaged, so that a new one helps. Any other error is the disk's.
    var isDamage: Bool {
        ![SQLITE_FULL, SQLITE_IOERR, SQLITE_READONLY, SQLITE_CANTOPEN, SQLITE_PERM, SQLITE_NOMEM, SQLITE_BUSY]
            .contains(code & 0xFF) || code == SQLiteError.shortRead
    }

    /// Whether no space is left.
    var isLackOfSpace: Bool { code & 0xFF == SQLITE_FULL }

    /// SQLITE_IOERR_SHORT_READ, a macro that is not imported: the file is shorter than its header says.
    private static let shortRead = SQLITE_IOERR | 2 << 8
}

/// An open database.
@safe
final class SQLiteConnection {
    private let handle: OpaquePointer

    /// Opens or creates the database at `path`; ":memory:" stands for one without a file.
    init(path: String) throws(SQLiteError) {
        var opened: OpaquePointer?
        let flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE
        let code = unsafe sqlite3_open_v2(path, &opened, flags, nil)
        guard code == SQLITE_OK, let opened = unsafe opened else {
            let error = unsafe SQLiteError(opened, code: code)
            unsafe sqlite3_close_v2(opened)
            throw error
        }
        unsafe handle = opened
    }

    /// Has SQLite use the paths of databases as they are, with links. A database that is itself a link is not opened.
    static func keepPaths() { _ = csqlite_keep_paths() }

    deinit {
        // Statements may still exist; SQLite closes the connection with the last of them.
        unsafe sqlite3_close_v2(handle)
    }

    /// Runs statements and ignores their results.
    func execute(_ sql: String) throws(SQLiteError) {
        let code = unsafe sqlite3_exec(handle, sql, nil, nil, nil)
        if code != SQLITE_OK { throw unsafe SQLiteError(handle, code: code) }
    }

    /// Compiles a statement that is used many times.
    func prepare(_ sql: String) throws(SQLiteError) -> SQLiteStatement {
        var statement: OpaquePointer?
        let code = unsafe sqlite3_prepare_v3(handle, sql, -1, UInt32(SQLITE_PREPARE_PERSISTENT), &statement, nil)
        guard code == SQLITE_OK, let statement = unsafe statement else {
            throw unsafe SQLiteError(handle, code: code)
        }
        return unsafe SQLiteStatement(owning: statement)
    }

    /// The number of rows that the last statement changed.
    var changes: Int { Int(unsafe sqlite3_changes(handle)) }

    /// The first column of the first row of `sql`, as an integer; nil when there is no row.
    func integer(_ sql: String) throws(SQLiteError) -> Int? {
        var value: Int?
        try prepare(sql).forEach([]) { row in
            value = row.integer(0)
            return false
        }
        return value
    }
}

/// A value for a statement's parameter.
enum SQLiteValue {
    case text(String)
    case integer(Int)
    case null
}

/// A compiled statement.
@safe
struct SQLiteStatement: ~Copyable {
    private let handle: OpaquePointer

    fileprivate init(owning handle: OpaquePointer) {
        unsafe self.handle = handle
    }

    deinit {
        unsafe sqlite3_finalize(handle)
    }

    /// One row of a result, valid until the next one.
    @safe
    struct Row: ~Copyable {
        fileprivate let handle: OpaquePointer

        fileprivate init(handle: OpaquePointer) {
            unsafe self.handle = handle
        }

        func integer(_ column: Int32) -> Int { Int(unsafe sqlite3_column_int64(handle, column)) }

        func text(_ column: Int32) -> String {
            guard let text = unsafe sqlite3_column_text(handle, column) else { return "" }
            return unsafe String(cString: text)
        }
    }

    /// Runs the statement and ignores its rows.
    borrowing func run(_ values: [SQLiteValue]) throws(SQLiteError) {
        try forEach(values) { _ in true }
    }

    /// Runs the statement and passes each row to `body`, until that returns false.
    borrowing func forEach(
        _ values: [SQLiteValue], _ body: (borrowing Row) -> Bool
    ) throws(SQLiteError) {
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
            case .text(let text): unsafe sqlite3_bind_text(handle, index, text, -1, Self.copied)
            }
        if code != SQLITE_OK { throw unsafe SQLiteError(sqlite3_db_handle(handle), code: code) }
    }

    /// SQLITE_TRANSIENT, a cast that Swift does not import: SQLite copies the bytes at once.
    private static var copied: sqlite3_destructor_type {
        unsafe unsafeBitCast(-1, to: sqlite3_destructor_type.self)
    }
}
