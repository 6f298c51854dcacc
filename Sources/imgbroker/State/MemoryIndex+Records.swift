import Digests
import DiskRecords
import HTTPValues
import IPCProtocol
import SystemValues

// What the tables of the index hold, as small as it can be: there may be a million of each. They refer to each other by
// slots; a chain of them ends with 0, so a link is a slot and 1.
extension MemoryIndex {
    typealias Link = UInt32

    /// A name that leads to a content. The URL of its key is the statement's, so that it is here once.
    struct OriginalRecord: KeyedRecord {
        private let particulars: OriginalKey.Particulars?
        private let owner: UInt32?
        var isFromDisk: Bool
        var isOnDisk: Bool
        let content: UInt32
        /// The next original of this content.
        var next: Link
        private(set) var origin: OriginStatement

        init(_ original: Original, for key: OriginalKey, content: Int, next: Link) {
            (particulars, owner) = (key.particulars, key.owner)
            (isFromDisk, isOnDisk) = (original.isFromDisk, original.isOnDisk)
            (self.content, self.next) = (UInt32(content), next)
            origin = original.origin.named(key.url)
        }

        /// Takes over what is known of the same original now.
        mutating func update(_ original: Original, for key: OriginalKey) {
            (isFromDisk, isOnDisk) = (original.isFromDisk, original.isOnDisk)
            origin = original.origin.named(key.url)
        }

        var key: OriginalKey { OriginalKey(url: origin.url, particulars: particulars, owner: owner) }

        var keyHash: Int {
            var hasher = Hasher()
            origin.withURL { OriginalKey.hash($0, particulars, owner, into: &hasher) }
            return hasher.finalize()
        }

        func has(_ key: OriginalKey) -> Bool {
            owner == key.owner && particulars == key.particulars
                && (particulars?.cacheKey != nil || origin.isNamed(key.url))
        }
    }

    /// Bytes that were loaded, and everything that was made of them.
    struct Content: KeyedRecord {
        let key: ContentDigest
        var bytes: Int
        /// What is not known of most pictures.
        private var animation: Animation?
        /// The first of the originals whose bytes these are.
        var originals: Link = 0
        /// The first of the buffers that were made of them.
        var buffers: Link = 0
        /// How many the originals are.
        var originalsCount: UInt32 = 0
        private var width: UInt16 = 0
        private var height: UInt16 = 0
        private var format: ImageFormat?
        private var placeholder: Placeholder?

        init(_ digest: ContentDigest, bytes: Int) {
            key = digest
            self.bytes = bytes
        }

        var header: ImageHeader? {
            get {
                guard let format, let geometry = PixelGeometry(width: Int(width), height: Int(height)) else {
                    return nil
                }
                var header = ImageHeader(format: format, geometry: geometry)
                header.placeholder = placeholder
                guard let animation else { return header }
                (header.frameCount, header.timing) = (animation.frameCount, animation.timing)
                return header
            }
            set {
                format = newValue?.format
                (width, height) = newValue.map { $0.geometry.sides } ?? (0, 0)
                placeholder = newValue?.placeholder
                animation = newValue.flatMap(Animation.init)
            }
        }
    }

    /// What a header says of an animation.
    private final class Animation: Sendable {
        let frameCount: Int
        let timing: AnimationTiming?

        /// Nil when there is nothing to say.
        init?(_ header: ImageHeader) {
            if header.frameCount == 1, header.timing == nil { return nil }
            (frameCount, timing) = (header.frameCount, header.timing)
        }
    }

    /// A form that some buffers have: most have one of a few.
    struct FormRecord: KeyedRecord {
        let key: Form
        var uses: Int
    }

    /// A sealed memfd.
    struct Buffer: KeyedRecord {
        let key: BufferID
        let bytes: Int
        /// The same as `usedAt`.
        private var usedAtSeconds: UInt32
        /// The slot of what it was made of.
        let content: UInt32
        /// The slot of its form.
        let form: UInt32
        /// Its neighbours among the buffers of its content.
        var previous: Link = 0
        var next: Link = 0
        /// Four times the holders, 2 where it was asked for, and 1 where it is resident.
        private var state: UInt32 = 1
        private let width: UInt16
        private let height: UInt16

        init(_ key: BufferID, content: Int, form: Int, bytes: Int, geometry: PixelGeometry?, usedAt: Instant) {
            self.key = key
            (self.content, self.form) = (UInt32(content), UInt32(form))
            self.bytes = bytes
            (width, height) = geometry?.sides ?? (0, 0)
            usedAtSeconds = UInt32(clamping: usedAt.nanoseconds / 1_000_000_000)
        }

        /// When it was last asked for, to the second.
        var usedAt: Instant {
            get { Instant(nanoseconds: Int64(usedAtSeconds) * 1_000_000_000) }
            set { usedAtSeconds = UInt32(clamping: newValue.nanoseconds / 1_000_000_000) }
        }

        /// The size of the picture, for pixels.
        var geometry: PixelGeometry? { PixelGeometry(width: Int(width), height: Int(height)) }

        /// Whether it counts against the budget; otherwise it was evicted and stays for its holders.
        var isResident: Bool {
            get { state & 1 == 1 }
            set { state = state & ~1 | (newValue ? 1 : 0) }
        }

        /// Whether it was ever the answer to a request.
        var wasAskedFor: Bool {
            get { state & 2 == 2 }
            set { state = state & ~2 | (newValue ? 2 : 0) }
        }

        /// Clients that lease it, and jobs that read it.
        var holders: Int {
            get { Int(state >> 2) }
            set { state = UInt32(newValue) << 2 | state & 3 }
        }
    }
}

extension PixelGeometry {
    /// Both sides, which fit by the bound on them.
    fileprivate var sides: (UInt16, UInt16) { (UInt16(width), UInt16(height)) }
}
