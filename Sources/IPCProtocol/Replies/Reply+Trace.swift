extension Reply {
    /// Gives the span `reply` its duration, if it is an image with spans.
    package mutating func endTrace(replyMicroseconds: Int) {
        guard case .image(let id, var image) = self, let last = image.spans.indices.last else { return }
        image.spans[last].microseconds = min(max(replyMicroseconds, 0), TraceSpan.longest)
        self = .image(id: id, image)
    }
}
