extension GetOptions {
    /// The options whose fields have a fixed size; most requests have no others. Each look-up by options copies and
    /// compares them, so they have no references, which would be retained and released, and take 28 bytes.
    package struct Plain: Equatable, Sendable {
        let representation: Representation
        let delivery: Delivery
        let cache: CacheMode
        let storage: Storage
        let priority: Priority
        let fit: Transform.Fit
        let pixelFormat: PixelFormat
        let alpha: AlphaMode
        /// One bit for each Boolean option.
        let flags: UInt16
        let quality: UInt8
        /// The box; 0 for a side that is not given.
        let width: UInt16
        let height: UInt16
        /// The frame's index; -1 for all.
        let frame: Int32
        let timeoutMs: Int32
        let totalTimeoutMs: Int32
    }

    /// These options as `Plain`; nil when they include headers, credentials, a `cacheKey`, a preset, terms, a crop,
    /// steps or a position, a background, a range of frames, metadata, or a number that no broker accepts.
    package var plain: Plain? {
        if !headers.isEmpty || credentials != nil || cacheKey != nil || preset != nil || terms != nil
            || variant.edits != nil || variant.background != .white || !metadata.isEmpty
        {
            return nil
        }
        let frame =
            switch variant.frames {
            case .one(let index): Int32(exactly: index)
            case .all: Int32(-1)
            case .range: Int32?.none
            }
        guard let quality = UInt8(exactly: quality), let width = UInt16(exactly: variant.width ?? 0),
            let height = UInt16(exactly: variant.height ?? 0), let frame, variant.width != 0, variant.height != 0,
            let timeoutMs = Int32(exactly: timeoutMs), let totalTimeoutMs = Int32(exactly: totalTimeoutMs)
        else { return nil }
        var flags: UInt16 = 0
        if staleFirst { flags |= 1 }
        if retryFailed { flags |= 1 << 1 }
        if progress { flags |= 1 << 2 }
        if progressive { flags |= 1 << 3 }
        if cookies { flags |= 1 << 4 }
        if allowInvalidCertificates { flags |= 1 << 5 }
        if variant.scaleDown { flags |= 1 << 6 }
        if variant.linear { flags |= 1 << 7 }
        if damaged == .accept { flags |= 1 << 8 }
        if trace { flags |= 1 << 9 }
        if embedded == .fast { flags |= 1 << 10 }
        return Plain(
            representation: representation, delivery: delivery, cache: cache, storage: storage, priority: priority,
            fit: variant.fit, pixelFormat: variant.pixelFormat, alpha: variant.alpha, flags: flags, quality: quality,
            width: width, height: height, frame: frame, timeoutMs: timeoutMs, totalTimeoutMs: totalTimeoutMs)
    }
}
