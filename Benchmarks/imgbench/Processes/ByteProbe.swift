import CEcho
import Glibc

/// A request whose reply carries the bytes of an image, always the same.
struct ByteProbe {
    let socket: Int32
    let request: [CChar]
    let replyBytes: Int

    /// Measures the time until all bytes have been received into `buffer` and read, in microseconds.
    func fetch(into buffer: inout [CChar]) throws -> Double {
        var sum: UInt64 = 0
        if buffer.count < replyBytes { buffer = [CChar](repeating: 0, count: replyBytes) }
        let time = cecho_fetch(socket, request, request.count, &buffer, replyBytes, &sum)
        guard time >= 0 else { throw Failure("the server does not answer") }
        return Double(time) / 1000
    }

    func close() { _ = Glibc.close(socket) }
}
