import IPCProtocol

/// What a file says beside its pixels, found by stepping over its segments or chunks. Nothing is believed: lengths are
/// held against the bytes that are there, and a walk that meets nonsense ends with what it has.
struct ContainerMetadata: Equatable {
    /// Where the EXIF block is, a TIFF structure without any prefix.
    var exif: Range<Int>?
    /// The frames that an animated PNG announces.
    var animationFrames: Int?

    /// Looks through `bytes` as a file of `format`. `passed` is told, now and then, how far it is.
    init(_ format: ImageFormat, _ bytes: Span<UInt8>, passed: (Int) -> Void = { _ in }) {
        switch format {
        case .jpeg: walkJPEG(bytes)
        case .png: walkPNG(bytes, passed)
        case .webp: walkWebP(bytes)
        }
    }

    /// The orientation by which the picture is to be shown.
    func orientation(in bytes: Span<UInt8>) -> Orientation {
        guard let exif else { return .upright }
        return Orientation(exif: bytes.extracting(exif))
    }

    /// JPEG: marker segments up to the first scan; EXIF is in APP1, behind its name.
    private mutating func walkJPEG(_ bytes: Span<UInt8>) {
        var position = 2
        while true {
            // Surplus bytes before a marker are passed over, as the library does.
            while position < bytes.count, bytes[position] != 0xFF { position += 1 }
            while position < bytes.count, bytes[position] == 0xFF { position += 1 }
            guard position < bytes.count else { return }
            let marker = bytes[position]
            position += 1
            switch marker {
            case 0x00, 0x01, 0xD0...0xD8: continue
            case 0xD9, 0xDA: return
            default: break
            }
            guard let length = bytes.integer(at: position, bytes: 2, .big), length >= 2,
                position + length <= bytes.count
            else { return }
            if marker == 0xE1, length >= 8, bytes.hasText("Exif\0", at: position + 2) {
                // The second byte behind the name is padding, whatever it holds.
                exif = position + 8..<position + length
                return
            }
            position += length
        }
    }

    /// PNG: chunks up to IEND, for eXIf may also stand behind the pixels.
    private mutating func walkPNG(_ bytes: Span<UInt8>, _ passed: (Int) -> Void) {
        var position = 8
        var pixelsBegan = false
        while let length = bytes.integer(at: position, bytes: 4, .big) {
            let (name, start) = (position + 4, position + 8)
            guard start + length <= bytes.count else { return }
            if bytes.hasText("IDAT", at: name) {
                pixelsBegan = true
            } else if bytes.hasText("eXIf", at: name), exif == nil {
                exif = start..<start + length
            } else if bytes.hasText("acTL", at: name), length == 8, !pixelsBegan, animationFrames == nil {
                animationFrames = bytes.integer(at: start, bytes: 4, .big)
            } else if bytes.hasText("IEND", at: name) {
                return
            }
            position = start + length + 4
            passed(position)
        }
    }

    /// WebP: chunks of the RIFF container.
    private mutating func walkWebP(_ bytes: Span<UInt8>) {
        guard let size = bytes.integer(at: 4, bytes: 4, .little) else { return }
        let end = min(bytes.count, size + 8)
        var position = 12
        while let length = bytes.integer(at: position + 4, bytes: 4, .little) {
            let start = position + 8
            guard start + length <= end else { return }
            if bytes.hasText("EXIF", at: position) {
                // Some writers keep JPEG's name for it.
                let prefix = bytes.hasText("Exif\0\0", at: start) && length >= 6 ? 6 : 0
                exif = start + prefix..<start + length
                return
            }
            position = start + length + length % 2
        }
    }
}
