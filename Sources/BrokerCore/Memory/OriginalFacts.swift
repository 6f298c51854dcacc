import HTTPCaching

/// The facts of an original besides its bytes.
struct OriginalFacts {
    let content: ContentKey
    /// The number of its bytes.
    let bytes: Int
    let origin: OriginStatement
    /// Whether it came from the disk tier, which may then have rasters of it.
    var isFromDisk = false
    /// Whether the disk tier has its bytes; of a file, its identity.
    var isOnDisk = false
    /// Whether nothing that is made of it may enter the disk tier.
    var staysOffDisk = false
}
