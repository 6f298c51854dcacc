package import IPCProtocol
package import LinuxSystem
package import WorkerProtocol

extension FrameChannel {
    /// An error after which a worker's channel is unusable.
    package enum Failure: Error, CustomStringConvertible {
        /// A system call failed.
        case system(SystemError)
        /// The peer sent an invalid message.
        case badMessage(BadWorkerMessage)
        /// A message is too long for a frame. Nothing was sent, and the channel is still usable.
        case tooLong(Frame.TooLong)

        /// The error in words.
        package var description: String {
            switch self {
            case .system(let error): "\(error)"
            case .badMessage(let error): "bad message: \(error)"
            case .tooLong(let error): "a message of \(error.length) bytes is too long"
            }
        }
    }

    /// Takes the next complete message with its descriptors; nil if none is complete. Bytes in its frame are in
    /// `frameBytes`. With `mayLose`, it has no descriptors when the kernel dropped them (`areDescriptorsLost`).
    ///
    /// - Throws: `Failure.badMessage`, also when descriptors are missing.
    package func nextMessage<Message: WorkerMessage>(
        _: Message.Type = Message.self, mayLose: Bool = false
    ) throws(Failure) -> (Message, [FileDescriptor])? {
        do {
            guard let frame = try nextFrame() else { return nil }
            let (message, bytes) = try Message.read(frame)
            frameBytes = bytes.map { Array($0) }
            let areLost = mayLose && areDescriptorsLost
            if let descriptors = takeDescriptors(message.descriptorCount(withBytes: bytes != nil)) {
                return (message, descriptors)
            }
            if areLost { return (message, []) }
            throw BadWorkerMessage(description: "descriptors of \(message.type) are missing")
        } catch let error as BadWorkerMessage {
            throw .badMessage(error)
        } catch {
            throw .badMessage(BadWorkerMessage(description: "\(error)"))
        }
    }

    /// Waits for the next message; nil at the end of the stream.
    package func receiveMessage<Message: WorkerMessage>(
        _: Message.Type = Message.self
    ) throws(Failure) -> (Message, [FileDescriptor])? {
        while true {
            if let message = try nextMessage(Message.self) { return message }
            do throws(SystemError) {
                if hasOutgoing { try flush() }
                if try fill() == .end { return nil }
            } catch {
                throw .system(error)
            }
        }
    }

    /// Queues a message; `flush` sends it. `bytes`, if given, go into its frame, in place of its first descriptor.
    ///
    /// - Throws: `Frame.TooLong`; nothing is queued then.
    package func enqueue(
        _ message: some WorkerMessage, descriptors: [FileDescriptor] = [], bytes: [UInt8]? = nil
    ) throws(Frame.TooLong) {
        try enqueue(descriptors: descriptors) { (frames) throws(Frame.TooLong) in
            guard let bytes else { return try message.append(to: &frames) }
            try unsafe message.append(to: &frames, with: bytes.span.bytes)
        }
    }

    /// Sends the queued messages and waits until the socket has accepted them.
    ///
    /// - Throws: `Failure.system`.
    package func flushMessages() throws(Failure) {
        do { try flush() } catch { throw .system(error) }
    }

    /// Sends a message and waits until the socket has accepted it.
    ///
    /// - Throws: `Failure.system`, `Failure.tooLong`.
    package func sendMessage(_ message: some WorkerMessage, descriptors: [FileDescriptor] = []) throws(Failure) {
        do { try enqueue(message, descriptors: descriptors) } catch { throw .tooLong(error) }
        try flushMessages()
    }
}
