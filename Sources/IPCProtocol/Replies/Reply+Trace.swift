extension Reply {
    /// Whether it is an image with spans.
    package var isTraced: Bool {
        if case .image(_, let image) = self { !image.spans.isEmpty } else { false }
    }

    /// Gives the span `reply` its duration.
    package mutating func endTrace(replyMicroseconds: Int) {
        guard case .image(let id, var image) = self, let last = image.spans.indices.last else { return }
        image.spans[last].microseconds = min(max(replyMicroseconds, 0), TraceSpan.longest)
        self = .image(id: id, image)
    }
}
