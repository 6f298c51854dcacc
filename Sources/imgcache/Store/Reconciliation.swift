import LinuxSystem

/// The progress of a comparison of the index with the files, which follows each start. It goes through the
/// subdirectories in order of their names, one entry a step. See `Store.reconcile`.
struct Reconciliation {
    enum Step {
        /// The first step. Temporary files can be removed.
        case started
        /// A file without a row, by its path below the directory of its kind.
        case unknownFile(EntryKind, String)
        /// A row without a file.
        case missingFile(EntryName)
        /// A row with a file.
        case knownFile(EntryName)
        case advanced
        case finished
    }

    /// The present kind, and those that remain after it, the next one last.
    private var kind: EntryKind?
    private var kinds: [EntryKind] = EntryKind.allCases.reversed()
    /// The subdirectories of the present kind that remain, in descending order.
    private var prefixes: [String] = []
    /// File names below this one are done.
    private var lowest = ""
    /// The entries of the present subdirectory that remain.
    private var entries: [Step] = []

    /// Does the next step in `directory`. `firstRow` returns the index's first file name of a kind that is not below
    /// another name, `rows` its file names of a kind with a prefix.
    mutating func next(
        in directory: CacheDirectory, firstRow: (EntryKind, String) -> String?, rows: (EntryKind, String) -> [String]
    ) -> Step {
        if let entry = entries.popLast() { return entry }
        if let kind, let prefix = nextPrefix(firstRow(kind, lowest)) {
            compare(kind, prefix, in: directory, rows(kind, prefix))
            return .advanced
        }
        let isFirst = kind == nil
        kind = kinds.popLast()
        guard let kind else { return .finished }
        list(kind, in: directory)
        return isFirst ? .started : .advanced
    }

    private mutating func list(_ kind: EntryKind, in directory: CacheDirectory) {
        lowest = ""
        let names = (try? FileSystem.names(in: directory.directory(of: kind))) ?? []
        prefixes = names.filter { $0.utf8.count == 2 && EntryName(kind: kind, fileName: $0) != nil }.sorted(by: >)
    }

    /// The next subdirectory that exists, or that the index has rows for.
    private mutating func nextPrefix(_ firstRow: String?) -> String? {
        let known = firstRow.map { String($0.prefix(2)) }
        if let listed = prefixes.last, known.map({ listed <= $0 }) ?? true {
            prefixes.removeLast()
            lowest = listed + "\u{7F}"
            return listed
        }
        if let known { lowest = known + "\u{7F}" }
        return known
    }

    private mutating func compare(_ kind: EntryKind, _ prefix: String, in directory: CacheDirectory, _ rows: [String]) {
        let files = (try? FileSystem.names(in: directory.directory(of: kind, prefix: prefix))) ?? []
        let (known, existing) = (Set(rows), Set(files))
        entries = files.filter { !known.contains($0) }.map { .unknownFile(kind, "\(prefix)/\($0)") }
        entries += rows.compactMap { fileName in
            EntryName(kind: kind, fileName: fileName).map {
                existing.contains(fileName) ? .knownFile($0) : .missingFile($0)
            }
        }
    }
}
