/// The configuration of the disk tier.
struct StoreOptions: Equatable {
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
    /// The time between two attempts to remove an obstacle, in milliseconds.
    var retryInterval = 30_000

    /// The size of the index's log: small for a small cache, of which it is a part.
    var indexLogBytes: Int {
        let share = (diskLimit.addingReportingOverflow(rasterLimit).overflow ? .max : diskLimit + rasterLimit) / 64
        return min(max(share, 1 << 16), 1 << 22)
    }

    func limit(_ kind: EntryKind) -> Int {
        kind == .originals ? diskLimit : rasterLimit
    }
}
