import IPCProtocol
import ImageDecoding

/// The previews in a JPEG: the thumbnail of its EXIF block, and the smaller images that follow it (CIPA DC-007).
struct JPEGPreviews {
    private let source: ImageSource
    private(set) var places: [Range<Int>] = []

    /// The most images to look at.
    private static let most = 16

    /// Finds the previews in `source`. Places outside the file are left out.
    init(_ source: ImageSource) {
        self.source = source
        places = source.withSpan { bytes in
            let found = ContainerMetadata(.jpeg, bytes)
            var places: [Range<Int>] = []
            if let exif = found.exif, let directory = ExifDirectory(bytes.extracting(exif)),
                let thumbnail = directory.thumbnail(in: bytes.extracting(exif))
            {
                places.append(exif.lowerBound + thumbnail.lowerBound..<exif.lowerBound + thumbnail.upperBound)
            }
            if let index = found.pictures { places += Self.pictures(in: index, of: bytes) }
            return places
        }
    }

    func open(_ offer: (any ImageDecoder) -> Void) {
        for place in places {
            if let decoder = try? JPEGDecoder(ImageSource(place, of: source)) { offer(decoder) }
        }
    }

    /// The ranges of the reduced images that an index lists. Its further kinds are other views, depths and gain maps.
    private static func pictures(in index: Range<Int>, of bytes: Span<UInt8>) -> [Range<Int>] {
        let file = bytes.extracting(index)
        guard let header = ExifDirectory(file), let entry = header.entry(0xB002, in: header.first, file),
            let length = file.integer(at: entry + 4, bytes: 4, header.order),
            let list = file.integer(at: entry + 8, bytes: 4, header.order)
        else { return [] }
        return (0..<min(length / 16, most)).compactMap { image in
            let place = list + 16 * image
            guard let attribute = file.integer(at: place, bytes: 4, header.order),
                (0x010001...0x010005).contains(attribute & 0xFF_FFFF),
                let size = file.integer(at: place + 4, bytes: 4, header.order),
                let start = file.integer(at: place + 8, bytes: 4, header.order),
                start > 0, size > 0, start <= file.count, size <= file.count - start
            else { return nil }
            return index.lowerBound + start..<index.lowerBound + start + size
        }
    }
}
