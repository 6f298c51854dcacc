import IPCProtocol

extension PixelGeometry {
    /// Checks that all frames of this size together have at most `most` pixels. Throws `too-many-pixels`, in words that
    /// begin with `subject`.
    func check(
        frames: Int = 1, atMost most: Int, _ subject: @autoclosure () -> String = "The image has"
    ) throws(WireError) {
        guard pixels * frames <= most else {
            let pixels = "\(width) × \(height)" + (frames > 1 ? " × \(frames)" : "") + " pixels"
            throw WireError(.tooManyPixels, "\(subject()) \(pixels); \(most) are allowed.")
        }
    }
}
