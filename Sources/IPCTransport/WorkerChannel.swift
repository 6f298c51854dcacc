package import LinuxSystem
package import WorkerProtocol

extension FrameChannel {
    /// An error after which a worker's channel is unusable.
    package enum Failure: Error, CustomStringConvertible {
        /// A system call failed.
        case system(SystemError)
        /// The peer sent an invalid message.
        case badMessage(BadWorkerMessage)

        /// The error in words.
        package var description: String {
            switch self {
            case .system(let error): "\(error)"
            case .badMessage(let error): "bad message: \(error)"
            }
        }
    }

    /// Takes the next complete message with its descriptors; nil if none is complete.
    ///
    /// - Throws: `Failure.badMessage`, also when descriptors are missing.
    package func nextMessage<Message: WorkerMessage>(
        _: Message.Type = Message.self
    ) throws(Failure) -> (Message, [FileDescriptor])? {
        do {
            guard let text = try nextFrame() else { return nil }
            let message = try Message(decoding: text)
            guard let descriptors = takeDescriptors(message.descriptorCount) else {
                throw BadWorkerMessage(description: "descriptors of \(message.type) are missing")
            }
            return (message, descriptors)
        } catch let error as BadWorkerMessage {
            throw .badMessage(error)
        } catch {
            throw .badMessage(BadWorkerMessage(description: "\(error)"))
        }
    }

    /// Waits for the next message; nil at the end of the stream.
    ///
    /// - Throws: `Failure`.
    package func receiveMessage<Message: WorkerMessage>(
        _: Message.Type = Message.self
    ) throws(Failure) -> (Message, [FileDescriptor])? {
        do {
            while true {
                if let message = try nextMessage(Message.self) { return message }
                if try fill() == .end { return nil }
            }
        } catch let error as SystemError {
            throw .system(error)
        } catch let error as Failure {
            throw error
        } catch {
            throw .badMessage(BadWorkerMessage(description: "\(error)"))
        }
    }

    /// Queues a message; `flush` sends it.
    package func enqueue(_ message: some WorkerMessage, descriptors: [FileDescriptor] = []) {
        enqueue(message.encoded(), descriptors: descriptors)
    }

    /// Sends a message and waits until the socket has accepted it.
    ///
    /// - Throws: `Failure.system`.
    package func sendMessage(_ message: some WorkerMessage, descriptors: [FileDescriptor] = []) throws(Failure) {
        enqueue(message, descriptors: descriptors)
        do { try flush() } catch { throw .system(error) }
    }
}
