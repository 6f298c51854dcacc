struct StoreOptions {
    var directory: String
    /// The limit of the originals' size, in bytes.
    var diskLimit: Int
    /// The limit of the rasters' size, in bytes.
    var rasterLimit: Int
    /// The time, in milliseconds, for which an entry is kept after its last use; nil for no limit.
    var maxAge: Int?
    /// The largest body of an original or raster, in bytes.
    var largestBody = Int.max
    /// Further cache directories, which are only read.
    var extraDirectories: [String] = []
    /// The size, in bytes, up to which an entry is kept among the small ones; 0 for none.
    var smallEntry = 1 << 16
    /// The time between two attempts to remove an obstacle, in milliseconds.
    var retryInterval = 30_000

    /// The most that `smallEntry` can be: larger entries are read faster from files.
    static let largestSmallEntry = 1 << 20

    /// The size of the index's log: small for a small cache, of which it is a part.
    var indexLogBytes: Int { min(max(totalLimit / 64, 1 << 16), 1 << 22) }

    var totalLimit: Int {
        let (sum, overflow) = diskLimit.addingReportingOverflow(rasterLimit)
        return overflow ? .max : sum
    }

    func limit(_ kind: EntryKind) -> Int { kind == .originals ? diskLimit : rasterLimit }
}
