import CImageCodecs
import Digests
import IPCProtocol

/// The conversion of an image's rows to sRGB.
struct ColorConversion {
    /// The conversion; nil if rows are sRGB already.
    let handle: CodecHandle?
    /// Whether the file has a profile that cannot be used, so that the image is treated as sRGB.
    let ignoresProfile: Bool

    /// An upper estimate of the bytes that a conversion holds besides its profile, such as tables of 33³ colours.
    static let bytes = 4 << 20
}

/// A cache of conversions, because images from one camera or printer share a profile. Evicts the least recently used.
final class ColorConversions {
    private struct Key: Equatable {
        let digest: String
        let space: codec_space
        let order: codec_order
    }

    static let most = 4

    private var kept: [(key: Key, conversion: ColorConversion)] = []

    /// Returns the conversion of rows in `space` with `profile`; throws `out-of-memory`.
    func conversion(_ profile: ColorProfile, _ space: codec_space, _ order: codec_order) throws(WireError)
        -> ColorConversion
    {
        let digest: String, bytes: [UInt8]?, light: Int32
        switch profile {
        case .bytes(let profile): (digest, bytes, light) = (SHA256.hexadecimalDigest(of: profile), profile, 0)
        case .light(let number): (digest, bytes, light) = ("\(number)", nil, number)
        case .none, .damaged:
            let plain = try Self.make(nil, 0, space, order)
            return ColorConversion(handle: plain.handle, ignoresProfile: profile == .damaged)
        }
        let key = Key(digest: digest, space: space, order: order)
        if let index = kept.firstIndex(where: { $0.key == key }) {
            let entry = kept.remove(at: index)
            kept.append(entry)
            return entry.conversion
        }
        let conversion = try Self.make(bytes, light, space, order)
        if kept.count == Self.most { kept.removeFirst() }
        kept.append((key, conversion))
        return conversion
    }

    private static func make(
        _ profile: [UInt8]?, _ light: Int32, _ space: codec_space, _ order: codec_order
    ) throws(WireError) -> ColorConversion {
        var color: OpaquePointer?
        switch unsafe codec_color_create(profile, profile?.count ?? 0, light, space, order, &color) {
        case CODEC_OK:
            let isNeeded = unsafe color != nil
            return ColorConversion(
                handle: isNeeded ? unsafe try CodecHandle(color) : nil, ignoresProfile: false)
        case CODEC_NO_MEMORY: throw .outOfMemory
        default: return ColorConversion(handle: try make(nil, 0, space, order).handle, ignoresProfile: true)
        }
    }
}

/// Converts rows to sRGB and passes them on.
struct ColorConverter: RowSink {
    let conversion: CodecHandle
    var next: any RowSink

    mutating func take(_ band: RowBand) throws(WireError) {
        let pixels = unsafe band.bytes.bindMemory(to: UInt8.self)
        unsafe codec_color_convert(conversion.pointer, pixels.baseAddress, pixels.count / 4)
        try next.take(band)
    }

    mutating func finish() throws(WireError) { try next.finish() }
}
