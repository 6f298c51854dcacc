import CImageCodecs
import Digests
import IPCProtocol
import SharedCache

/// The conversion of a picture's rows to sRGB.
struct ColorConversion {
    /// Nil where rows stay as they are.
    let handle: CodecHandle?
    /// Whether the picture has a profile that serves for nothing, so that it is taken for sRGB.
    let ignoresProfile: Bool

    /// An upper estimate of the bytes that a conversion holds beside its profile: tables of 33³ colours and the like.
    static let bytes = 4 << 20
}

/// The conversions made last: pictures of one camera or one printer come with the same profile.
final class ColorConversions {
    private struct Key: Equatable {
        let digest: String
        let space: codec_space
        let order: codec_order
    }

    /// How many are kept.
    static let most = 4

    private var kept: [(key: Key, conversion: ColorConversion)] = []
    /// How many were made, for tests.
    private(set) var made = 0

    /// The conversion of rows in `space` by `profile`.
    ///
    /// - Throws: `out-of-memory`.
    func conversion(_ profile: ColorProfile, _ space: codec_space, _ order: codec_order) throws(WireError)
        -> ColorConversion
    {
        guard case .bytes(let bytes) = profile else {
            let plain = try Self.make(nil, space, order)
            return ColorConversion(handle: plain.handle, ignoresProfile: profile == .damaged)
        }
        let key = Key(digest: SHA256.hexadecimalDigest(of: bytes), space: space, order: order)
        if let index = kept.firstIndex(where: { $0.key == key }) {
            let entry = kept.remove(at: index)
            kept.append(entry)
            return entry.conversion
        }
        made += 1
        let conversion = try Self.make(bytes, space, order)
        if kept.count == Self.most { kept.removeFirst() }
        kept.append((key, conversion))
        return conversion
    }

    private static func make(
        _ profile: [UInt8]?, _ space: codec_space, _ order: codec_order
    ) throws(WireError) -> ColorConversion {
        var color: OpaquePointer?
        let status =
            if let profile {
                unsafe codec_color_create(profile, profile.count, space, order, &color)
            } else {
                unsafe codec_color_create(nil, 0, space, order, &color)
            }
        switch status {
        case CODEC_OK:
            return ColorConversion(
                handle: unsafe CodecHandle(color, destroy: codec_color_destroy), ignoresProfile: false)
        case CODEC_NO_MEMORY: throw .outOfMemory
        default: return ColorConversion(handle: try make(nil, space, order).handle, ignoresProfile: true)
        }
    }
}

/// Turns rows into sRGB on their way.
struct ColorConverter<Next: RowSink>: RowSink {
    private let conversion: CodecHandle
    private var next: Next

    /// A converter in front of `next`.
    init(_ conversion: CodecHandle, next: Next) {
        self.conversion = conversion
        self.next = next
    }

    mutating func take(_ band: RowBand) throws(WireError) {
        let pixels = unsafe band.bytes.bindMemory(to: UInt8.self)
        unsafe codec_color_convert(conversion.pointer, pixels.baseAddress, pixels.count / 4)
        try next.take(band)
    }

    mutating func finish() throws(WireError) { try next.finish() }
}
