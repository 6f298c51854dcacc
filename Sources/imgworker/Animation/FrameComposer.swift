import IPCProtocol

/// Brings the frames of an animation onto its canvas, one after the other: the rule that says what a frame leaves behind
/// and the one that says how it is laid over that, for all formats. Rows are those of the frame that was begun last.
struct FrameComposer: RowSink {
    private let geometry: PixelGeometry
    private let canvas: PixelMemory
    /// What the frame on the canvas has covered, if it is to be seen again.
    private var covered: PixelMemory?
    private var frame: Animation.Frame?
    private var row = 0
    private var isFirst = true

    /// An empty canvas: transparent.
    ///
    /// - Throws: `out-of-memory`.
    init(_ geometry: PixelGeometry) throws(WireError) {
        self.geometry = geometry
        canvas = try PixelMemory(count: geometry.bytes, zeroed: true)
    }

    /// Does with the last frame what was to be done after its time, and makes ready for `next`.
    ///
    /// - Throws: `out-of-memory`.
    mutating func begin(_ next: Animation.Frame) throws(WireError) {
        if let frame {
            for place in places(of: frame) {
                switch (frame.disposal, covered) {
                case (.clear, _): unsafe part(of: canvas, place).initializeMemory(as: UInt8.self, repeating: 0)
                case (.restore, let covered?): copy(place, of: covered, to: canvas)
                default: break
                }
            }
        }
        isFirst = frame == nil
        (frame, row) = (next, 0)
        guard next.disposal == .restore else { return }
        let memory: PixelMemory
        if let covered { memory = covered } else { memory = try PixelMemory(count: geometry.bytes) }
        for place in places(of: next) { copy(place, of: canvas, to: memory) }
        covered = memory
    }

    mutating func take(_ band: RowBand) throws(WireError) {
        guard let frame else { return }
        var start = 0
        for place in places(of: frame).dropFirst(row).prefix(band.count) {
            let source = unsafe UnsafeRawBufferPointer(rebasing: band.bytes[start..<start + place.count])
            // On an empty canvas there is nothing to shine through, and its own black is not kept for a colour.
            if frame.isBlended && !isFirst {
                unsafe blend(source, over: part(of: canvas, place))
            } else {
                unsafe part(of: canvas, place).copyMemory(from: source)
            }
            start += place.count
        }
        row += band.count
    }

    mutating func finish() throws(WireError) {}

    /// Hands the canvas as it is to `sink`, which may change the rows that it gets.
    ///
    /// - Throws: `out-of-memory`; whatever the sink throws.
    func show(to sink: inout some RowSink) throws(WireError) {
        var shown = 0
        unsafe try sink.takeBands(of: geometry) { (rows, _) throws(WireError) in
            unsafe rows.copyMemory(from: UnsafeRawBufferPointer(part(of: canvas, shown..<shown + rows.count)))
            shown += rows.count
        }
    }

    /// Where the rows of `frame` are on the canvas, in bytes.
    private func places(of frame: Animation.Frame) -> some RandomAccessCollection<Range<Int>> {
        let (stride, length) = (geometry.stride, frame.width * PixelGeometry.bytesPerPixel)
        let first = frame.y * stride + frame.x * PixelGeometry.bytesPerPixel
        return (0..<frame.height).lazy.map { first + $0 * stride..<first + $0 * stride + length }
    }

    private func part(of memory: PixelMemory, _ place: Range<Int>) -> UnsafeMutableRawBufferPointer {
        unsafe UnsafeMutableRawBufferPointer(rebasing: memory.bytes[place])
    }

    private func copy(_ place: Range<Int>, of source: PixelMemory, to target: PixelMemory) {
        unsafe part(of: target, place).copyMemory(from: UnsafeRawBufferPointer(part(of: source, place)))
    }
}
