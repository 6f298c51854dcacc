import IPCProtocol
import ImageDecoding

/// Composes the frames of an animation on its canvas, applying each frame's disposal and blending, for all formats. The
/// rows that it takes belong to the frame that was begun last. It throws `out-of-memory`.
struct FrameComposer: RowSink {
    private let geometry: PixelGeometry
    private let canvas: PixelMemory
    /// The canvas content under the current frame, if its disposal restores it.
    private var covered: PixelMemory?
    private var frame: Animation.Frame?
    private var row = 0
    private var isFirst = true

    init(_ geometry: PixelGeometry) throws(WireError) {
        self.geometry = geometry
        canvas = try PixelMemory(count: geometry.bytes, zeroed: true)
    }

    /// Applies the last frame's disposal and prepares for `next`.
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
            // Over an empty canvas, a copy also keeps the colour of transparent pixels.
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

    func show(to sink: inout some RowSink) throws(WireError) {
        var shown = 0
        unsafe try sink.takeBands(of: geometry) { (rows, _) throws(WireError) in
            unsafe rows.copyMemory(from: UnsafeRawBufferPointer(part(of: canvas, shown..<shown + rows.count)))
            shown += rows.count
        }
    }

    /// Returns the byte ranges of the rows of `frame` on the canvas.
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
