import IPCProtocol
import ImageBrokerClient
import LinuxSystem

struct Preview {
    private let graphics: TerminalGraphics
    private let size: Terminal.Size

    /// Asks the terminal what it can show; nil when standard output is not a terminal.
    init?() {
        guard let size = Terminal.ofStandardOutput else { return nil }
        self.size = size
        let answer = (try? Terminal())?.answer(
            to: TerminalGraphics.query, within: TerminalGraphics.patience, isComplete: TerminalGraphics.isComplete)
        graphics = TerminalGraphics(answer: answer ?? [], environment: CurrentProcess.environment)
    }

    /// Changes a request to one for an image that fits into the terminal, in the form that it needs.
    func adapt(_ options: inout GetOptions) {
        let largest = graphics.largestImage(in: size)
        options.variant.width = min(options.variant.width ?? largest.width, largest.width)
        options.variant.height = min(options.variant.height ?? largest.height, largest.height)
        options.representation = graphics == .kitty ? .png : .pixels
        options.variant.pixelFormat = .rgba8
        options.variant.alpha = .straight
    }

    func show(_ image: BrokerImage) {
        let bytes = unsafe image.withUnsafeBytes { unsafe [UInt8]($0) }
        try? CurrentProcess.writeToStandardOutput(text(bytes, image.reply))
    }

    private func text(_ bytes: [UInt8], _ reply: ImageReply) -> String {
        guard let pixels = reply.pixels else { return KittyGraphics.text(ofPNG: bytes) + "\n" }
        let rows = (0..<reply.height).flatMap { bytes[$0 * pixels.stride..<$0 * pixels.stride + 4 * reply.width] }
        let preview = PreviewPixels(width: reply.width, height: reply.height, bytes: rows)
        switch graphics {
        case .halfBlocks(let trueColor): return HalfBlocks.text(of: preview, trueColor: trueColor)
        case .kitty, .sixel: return Sixel.text(of: preview) + "\n"
        }
    }
}
