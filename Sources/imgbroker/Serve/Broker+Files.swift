import BrokerCore
import IPCProtocol
import IPCTransport
import LinuxSystem

// Local files: a helper has their descriptors, looks at them and reads them.
extension Broker {
    /// Takes a message about a file that a helper keeps, or whose descriptor is a file in memory.
    func take(
        _ message: ClientMessage, _ kept: KeptDescriptor?, _ memory: FileDescriptor?, from client: ClientConnection
    ) -> Event {
        let file = kept?.take().map { FileID(number: $0) } ?? memory.map { receiver.examine($0, of: client.uid) }
        if let file {
            // Handled after the request.
            if let known = receiver.claim(file) { events.append(known) }
            return .fileRequested(client.id, message, file)
        }
        let error = WireError(.badRequest, "The descriptor that fds announces did not come.")
        return .messageRejected(client.id, id: message.id, error)
    }

    func readFile(_ file: FileID, _ identity: FileIdentity, for job: JobID) {
        do {
            let product = try Product(name: "imgbroker-file", size: identity.size)
            products[job] = product
            guard let memory = product.descriptor, receiver.read(file, for: job, into: memory) else {
                return events.append(.fileReadFailed(job, .lost))
            }
        } catch {
            events.append(.fileReadFailed(job, .noMemory("\(error)")))
        }
    }

    func fileRead(_ job: JobID) {
        guard let product = products[job], let size = try? product.descriptor?.size() else {
            return handle(.fileReadFailed(job, .lost))
        }
        do {
            try product.seal(size: size)
            handle(.fileRead(job))
        } catch {
            handle(.fileReadFailed(job, .noMemory("\(error)")))
        }
    }
}
