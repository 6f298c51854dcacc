import DiskRecords
import WorkerProtocol

// The keys are reported when the reconciliation has seen all files. When another index is opened later, files may have
// been added that it does not know yet: the report is withdrawn until the next reconciliation is complete.
extension Store {
    var hasKeysToReport: Bool { keyReport.isWithdrawn || keyReport.next != nil }

    /// Notes that all entries are in the index.
    func beginKeyReport() {
        // Entries of an extra directory are in no index.
        guard extras.directories.isEmpty, usesIndexOfAll, total(.originals).entries <= KeyHash.most else { return }
        keyReport.next = ""
    }

    /// Notes that there may be entries that are not in the index.
    func withdrawKeyReport() {
        keyReport = KeyReport(isWithdrawn: keyReport.isComplete || keyReport.isWithdrawn)
    }

    /// Whether all entries that can be found are in an index: not those of a database that can only be read.
    var usesIndexOfAll: Bool { small != nil || !sources[0].still.mayExist }

    func takeKeys() -> StoreReport? {
        if keyReport.isWithdrawn {
            keyReport.isWithdrawn = false
            return .known(hashes: [], isComplete: false)
        }
        guard let lowest = keyReport.next, usesIndexOfAll else { return nil }
        let read = { (index: CacheIndex) throws(SQLiteError) in
            try index.fileNames(.originals, from: lowest, most: KeyReport.keysAtOnce)
        }
        guard let files = withIndex(read), let small = small == nil ? [] : withSmall(read) else {
            withdrawKeyReport()
            return nil
        }
        let keys = (files + small).sorted().prefix(KeyReport.keysAtOnce)
        keyReport.isComplete = keys.count < KeyReport.keysAtOnce
        // The least text above the last key.
        keyReport.next = keyReport.isComplete ? nil : keys.last.map { $0 + "0" }
        return .known(hashes: keys.compactMap(KeyHash.hash), isComplete: keyReport.isComplete)
    }
}
