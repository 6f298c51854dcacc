public import IPCProtocol
public import LinuxSystem

/// A frame of an animation that is played in parts.
public struct AnimationFrame: Sendable {
    /// Its index in the animation, from 0 on.
    public let index: Int
    /// How long it is shown, in milliseconds.
    public let delayMs: Int
    /// The part of the animation that it belongs to. Its `reply` has the size of a frame, and how often the animation
    /// is played.
    public let part: BrokerImage
    private let position: Int

    init(index: Int, of part: BrokerImage, at position: Int) {
        self.index = index
        self.part = part
        self.position = position
        delayMs = part.reply.timing?.delaysMs[position] ?? 0
    }

    /// Lends the frame's pixels to `body`: `height` rows of `part.reply.pixels!.stride` bytes.
    public func withBytes<Value>(_ body: (RawSpan) throws -> Value) rethrows -> Value {
        try part.withBytes { bytes in
            let size = bytes.byteCount / Swift.max(part.reply.timing?.delaysMs.count ?? 1, 1)
            return try body(bytes.extracting(position * size..<(position + 1) * size))
        }
    }
}

/// The frames of an animation, once from the first to the last, however many there are. The iterator holds at most two
/// parts of it: the one that is shown, and the next, which is requested meanwhile. A part has at most 8 MiB, or one
/// frame.
public struct AnimationFrames: AsyncSequence, Sendable {
    public typealias Element = AnimationFrame

    let options: GetOptions
    let load: @Sendable (GetOptions) async throws -> BrokerImage

    /// Iterates over frames.
    public struct AsyncIterator: AsyncIteratorProtocol {
        private let frames: AnimationFrames
        private var part: BrokerImage?
        /// The index of the part's first frame, and the position of the next one in the part.
        private var (first, position) = (0, 0)
        private let next: NextPart

        /// The request for the next part, which is cancelled with the iterator.
        private final class NextPart {
            var task: Task<BrokerImage, any Error>?

            deinit { task?.cancel() }
        }

        init(_ frames: AnimationFrames) {
            self.frames = frames
            next = NextPart()
            request(at: 0, count: 1)
        }

        private func request(at first: Int, count: Int) {
            var options = frames.options
            options.variant.frames = .range(FrameRange(first: first, count: count))
            let load = frames.load
            next.task = Task { [options] in try await load(options) }
        }

        /// Returns the next frame; nil after the last.
        ///
        /// - Throws: `ClientError`; `CancellationError` when the task is cancelled.
        public mutating func next(
            isolation actor: isolated (any Actor)? = #isolation
        ) async throws -> AnimationFrame? {
            if part.map({ position == $0.reply.timing?.delaysMs.count ?? 1 }) ?? true {
                guard let task = next.task else { return nil }
                let count = part?.reply.timing?.delaysMs.count ?? 0
                // The part before is released first.
                (part, next.task) = (nil, nil)
                let loaded = try await withTaskCancellationHandler {
                    try await task.value
                } onCancel: {
                    task.cancel()
                }
                (part, first, position) = (loaded, first + count, 0)
                let frames = Swift.max(loaded.reply.timing?.delaysMs.count ?? 1, 1)
                if first + frames < loaded.reply.frameCount {
                    let fitting = AnimationFrames.partBytes / Swift.max(loaded.reply.bytes / frames, 1)
                    request(at: first + frames, count: Swift.max(1, fitting))
                }
            }
            guard let part else { return nil }
            defer { position += 1 }
            return AnimationFrame(index: first + position, of: part, at: position)
        }
    }

    /// The most bytes of a part with several frames.
    private static let partBytes = 8 << 20

    public func makeAsyncIterator() -> AsyncIterator { AsyncIterator(self) }
}

extension AsyncImageBroker {
    /// Plays the animation at `url` in parts, so that a long one takes no more memory than a short one.
    ///
    /// ```swift
    /// for try await frame in broker.frames(at: url) {
    ///     frame.withBytes { show($0, for: frame.delayMs) }
    /// }
    /// ```
    ///
    /// - Parameters:
    ///   - url: an `http` or `https` URL.
    ///   - options: the form of the frames, and how to load the animation; `variant.frames` has no effect.
    public func frames(at url: String, options: GetOptions = GetOptions()) -> AnimationFrames {
        AnimationFrames(options: options) { try await self.image(at: url, options: $0) }
    }

    /// Plays the animation in a regular file that is open for reading, as that at a URL.
    ///
    /// - Parameters:
    ///   - file: the open file.
    ///   - name: the name in the broker's events, at most 255 bytes.
    ///   - options: as those of ``image(atPath:width:height:fit:options:)``.
    public func frames(
        in file: FileDescriptor, name: String? = nil, options: GetOptions = GetOptions()
    ) -> AnimationFrames {
        AnimationFrames(options: options) { try await self.image(in: file, name: name, options: $0) }
    }
}
