package import IPCProtocol

/// A metadata block of a file.
package struct MetadataBlock: Equatable {
    package let length: Int
    /// Its bytes; nil for a block that is too long to be delivered.
    package let bytes: [UInt8]?

    /// Copies a block from its parts in a file, unless it is too long.
    package init?(_ parts: [Range<Int>], in file: Span<UInt8>) {
        length = parts.reduce(0) { $0 + $1.count }
        if length == 0 { return nil }
        guard length <= MetadataKind.longest else {
            bytes = nil
            return
        }
        bytes = file.joined(parts)
    }

    package init?(_ bytes: [UInt8]) {
        if bytes.isEmpty { return nil }
        length = bytes.count
        self.bytes = bytes.count <= MetadataKind.longest ? bytes : nil
    }
}

/// Properties of a file that decoding does not need.
package struct ImageDetails {
    package var bitDepth: Int?
    package var density: ImageFacts.Density?
    /// The EXIF block, a TIFF structure without a prefix.
    package var exif: MetadataBlock?
    package var xmp: MetadataBlock?

    package init() {}
}
