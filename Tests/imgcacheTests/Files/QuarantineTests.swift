/// The broker's quarantine survives the cache process.
@Suite(.timeLimit(.minutes(10))) final class QuarantineTests: CacheSuite {
    private var file: URL { URL(filePath: directory + "/quarantine") }

    private func records(_ count: Int) -> [QuarantineRecord] {
        (0..<count).map {
            let digits = String($0, radix: 16)
            return QuarantineRecord(
                digest: String(repeating: "0", count: 64 - digits.count) + digits, build: "0.1.0-0123456789abcdef",
                until: 1_795_262_400_000 + $0, milliseconds: 600_000)
        }
    }

    /// The records that a new process reports; nil for no report.
    private func remembered() throws -> [QuarantineRecord]? {
        let cache = try CacheProcess(directory)
        // Answered after the report.
        try cache.send(.query(job: 1, keys: []))
        let first = try cache.next().0
        guard case .quarantine(let records) = first else { return nil }
        return records
    }

    @Test func remembersTheLastList() throws {
        #expect(try remembered() == nil)
        do {
            let cache = try CacheProcess(directory)
            try cache.send(.quarantine(records(3)))
            // The limit of a broker.
            try cache.send(.quarantine(records(1024)))
            #expect(try cache.find(keys: [String(repeating: "a", count: 64)]) == nil)
        }
        #expect(try remembered() == records(1024))
        let attributes = try FileManager.default.attributesOfItem(atPath: file.path)
        #expect(attributes[.posixPermissions] as? Int == 0o600)
    }

    /// Others may have written the file.
    @Test func onlyPossibleRecords() throws {
        #expect(try remembered() == nil)
        let possible = records(1030)
        var others = records(5)
        others[0].digest = String(repeating: "A", count: 64)
        others[1].digest = String(repeating: "/", count: 64)
        others[2].build = String(repeating: "b", count: 65)
        others[3].build = "0.1.0\n"
        others[4].build = "0.1.0-\u{E9}"
        func write(_ records: [QuarantineRecord]) throws {
            try Data(StoreReport.quarantine(records).json).write(to: file)
        }
        try write(others)
        #expect(try remembered() == nil)
        // The last records are the most recently requested.
        try write(possible + others)
        #expect(try remembered() == Array(possible.suffix(1024)))
    }

    @Test(arguments: ["", "{", #"{"type":"ready"}"#, #"{"type":"quarantine","records":[{"digest":"a"}]}"#])
    func damagedListIsNone(text: String) throws {
        #expect(try remembered() == nil)
        try Data(text.utf8).write(to: file)
        #expect(try remembered() == nil)
        let cache = try CacheProcess(directory)
        try cache.waitForState(.on)
    }
}
