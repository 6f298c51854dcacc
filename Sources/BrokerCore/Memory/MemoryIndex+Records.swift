import IPCProtocol
import SystemValues

// The records of the tables.
extension MemoryIndex {
    /// The entries of an original's bytes: at least one original and, after `insert` of both, one buffer.
    struct Content: KeyedRecord {
        let key: ContentKey
        var bytes: Int
        var header: ImageHeader?
        /// The bytes of its originals' texts.
        @Short var textBytes = 0
        /// Whether any of its originals came from the disk tier, and so any of its buffers may have.
        var isFromDisk = false
        var originals = SlotList()
        var buffers = SlotList()
    }

    /// A key that leads to a content.
    struct OriginalEntry: KeyedRecord {
        let key: OriginalKey
        @Short var content: Int
        var origin: OriginStatement
        /// The bytes of the texts of both that are charged.
        @Short var textBytes: Int
        var isFromDisk: Bool
        var isOnDisk: Bool
        let staysOffDisk: Bool
        /// The neighbours in the list of the originals of one URL.
        @SlotLink var previousAtURL: Int? = nil
        @SlotLink var nextAtURL: Int? = nil
    }

    /// The bytes of a variant.
    struct BufferEntry: KeyedRecord {
        let key: BufferID
        @Short var content: Int
        @Short var form: Int
        let bytes: Int
        let geometry: PixelGeometry?
        /// When it was last requested, and whether it was ever the answer to a request.
        var usedAt: Instant
        var wasRequested = false
        /// Whether it counts against the budget; otherwise it is evicted and stays for its holders.
        var isResident = true
        /// One for each client that leases it, or that it is sent to inline, and for each job that needs it.
        @Short var holders = 0
        var home: Home
        /// Whether it has a memfd besides.
        var isShared = false

        /// Where it lies in a segment; nil for any other.
        var place: Segments.Place? { if case .segment(let place) = home { place } else { nil } }

        /// The bytes that it counts while it is resident.
        var charge: Int { place == nil ? bytes : SegmentSpace.units(of: bytes) * SegmentSpace.unit }
    }

    struct FormEntry: KeyedRecord {
        let key: Form
        /// The number of buffers.
        var uses = 0
        /// Whether its buffers are parts of animations, which memory does not keep without a holder: a player goes on
        /// to the next.
        let isBrief: Bool

        init(_ form: Form) { (key, isBrief) = (form, form.transform?.frames.isRange == true) }
    }

    /// A held buffer without a record: it was removed, or only its waiters may have it. Its bytes stay until its last
    /// hold ends.
    struct Orphan {
        let place: Segments.Place?
        let bytes: Int
        var holders: Int
    }
}
