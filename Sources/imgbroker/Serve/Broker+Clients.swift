import IPCProtocol
import IPCTransport
import LinuxSystem
import SharedCache

// Connections: taking them, reading requests, sending answers.
extension Broker {
    func accept() {
        // A few at a time, so that a flood of connections does not keep the loop.
        for _ in 0..<64 {
            if clients.count >= maximumClients { return pauseAccepting() }
            do {
                guard let socket = try UnixSocket.accept(from: listener.descriptor) else { return }
                let peer = try UnixSocket.peerCredentials(of: socket)
                let client = ClientConnection(
                    id: clientIDs.next(), socket: socket, receivingInto: receiveBuffer)
                try queue.add(socket.raw, token: Self.token(.client, client.id.number))
                clients[client.id] = client
                handle(.clientConnected(client.id, uid: peer.uid, isAdmin: isAdministrator(peer, socket)))
            } catch {
                log.warning("a connection could not be accepted: \(error)")
                if [SystemError.tooManyOpenFiles, SystemError.tooManyOpenFilesInSystem].contains(error.code) {
                    return pauseAccepting()
                }
            }
        }
    }

    /// Administrators are root, the broker's own user, and the members of one group, where there is one.
    private func isAdministrator(_ peer: UnixSocket.PeerCredentials, _ socket: FileDescriptor) -> Bool {
        if peer.uid == 0 || peer.uid == CurrentProcess.uid { return true }
        guard let group = configuration.adminGroup else { return false }
        return (try? UnixSocket.peerGroups(of: socket).contains(group)) ?? false
    }

    /// Leaves new connections in the backlog for a moment: the listener would be reported again and again.
    private func pauseAccepting() {
        queue.remove(listener.descriptor.raw)
        isAccepting = false
    }

    func resumeAccepting() {
        guard !isAccepting, !state.isDraining, clients.count < maximumClients else { return }
        isAccepting = (try? queue.add(listener.descriptor.raw, token: Self.token(.listener))) != nil
    }

    func receive(from client: ClientConnection) {
        if client.isClosing {
            // When nothing is read from it any more, this is news of its end.
            if !client.watched.reading { disconnect(client) }
            return
        }
        do {
            switch try client.channel.fill() {
            case .wouldBlock: return
            case .end: return disconnect(client)
            case .received: break
            }
        } catch {
            return disconnect(client)
        }
        // Only a `store` brings one, with the first byte of its frame.
        var hasCompleted = false
        while !client.isClosing, let event = nextEvent(from: client) {
            hasCompleted = true
            let hits = state.counters.hitCount
            let begun = Instant.now
            handle(event)
            if !uploads.isEmpty { uploads[client.id] = nil }
            if state.counters.hitCount > hits {
                state.counters.hits.record(microseconds: Instant.now.microseconds(since: begun))
            }
        }
        client.channel.closeDescriptors(keeping: client.isInsideFrame ? 1 : 0)
        noteArrival(client, hasCompleted: hasCompleted)
        unflushed.insert(client.id)
    }

    private func nextEvent(from client: ClientConnection) -> Event? {
        while true {
            if let upload = client.upload { return receive(upload, from: client) }
            let text: ArraySlice<UInt8>
            do {
                guard let frame = try client.channel.nextFrame() else { return nil }
                text = frame
            } catch {
                let message = "A frame of \(error.length) bytes: only 1 to \(Frame.maximumLength) are allowed."
                return .streamBroken(client.id, WireError(.badFrame, message))
            }
            if let event = read(text, from: client) { return event }
        }
    }

    /// Reads a frame; nil when it is a `store` whose bytes are to come.
    private func read(_ text: ArraySlice<UInt8>, from client: ClientConnection) -> Event? {
        do {
            let (decoded, envelope) = try ClientMessage.decode(text)
            if envelope.payload > configuration.limits.maxDownloadBytes {
                let message = "A payload of \(envelope.payload) bytes is too long."
                return .streamBroken(client.id, WireError(.badFrame, message))
            }
            let descriptors = envelope.descriptors > 0 ? client.channel.takeDescriptors(envelope.descriptors) : []
            if case .message(.store(let request)) = decoded {
                return take(request, descriptors?.first, from: client)
            }
            client.channel.skipPayload(envelope.payload)
            switch decoded {
            case .message(let message): return .messageReceived(client.id, message)
            case .rejected(let id, let error): return .messageRejected(client.id, id: id, error)
            }
        } catch {
            let message = "Not a JSON object: expected \(error.expected) at byte \(error.offset)."
            return .streamBroken(client.id, WireError(.badFrame, message))
        }
    }

    // MARK: What clients give

    private func take(_ request: StoreRequest, _ descriptor: FileDescriptor?, from client: ClientConnection) -> Event? {
        if request.payload > 0 {
            let arriving = clients.values.reduce(request.payload) { $0 + ($1.upload?.request.payload ?? 0) }
            let limits = configuration.limits
            if arriving <= max(limits.maxDownloadBytes, limits.memoryBytes / 4) {
                client.upload = try? Upload(request)
                if client.upload != nil { return nil }
            }
            client.channel.skipPayload(request.payload)
            let error = WireError(.overloaded, "There is no room for the bytes at present.")
            return .messageRejected(client.id, id: request.id, error)
        }
        guard let descriptor else {
            let error = WireError(.badRequest, "The descriptor that fds announces did not come.")
            return .messageRejected(client.id, id: request.id, error)
        }
        do {
            let buffer = try Upload.take(descriptor, upTo: configuration.limits.maxDownloadBytes)
            uploads[client.id] = buffer
            return .storeReceived(client.id, request, bytes: buffer.size)
        } catch {
            return .messageRejected(client.id, id: request.id, error)
        }
    }

    /// Takes what has arrived of a payload; nil while there is more to come.
    private func receive(_ upload: Upload, from client: ClientConnection) -> Event? {
        do {
            try upload.append(client.channel.takePayload(upTo: upload.missing))
            if upload.missing > 0 { return nil }
            client.upload = nil
            uploads[client.id] = try upload.sealed()
            return .storeReceived(client.id, upload.request, bytes: upload.request.payload)
        } catch {
            client.upload = nil
            client.channel.skipPayload(upload.missing)
            let error = WireError(.outOfMemory, "There is no room for the bytes: \(error).")
            return .messageRejected(client.id, id: upload.request.id, error)
        }
    }

    /// Tells the state when a frame begins that is not complete yet, and when it is.
    private func noteArrival(_ client: ClientConnection, hasCompleted: Bool) {
        if client.hasBegunFrame, hasCompleted || !client.isInsideFrame {
            client.hasBegunFrame = false
            handle(.frameCompleted(client.id))
        }
        if !client.hasBegunFrame, client.isInsideFrame {
            client.hasBegunFrame = true
            handle(.frameBegun(client.id))
        }
    }

    func send(_ reply: Reply, _ attachment: Action.Attachment, to client: ClientID) {
        guard let connection = clients[client] else { return }
        var reply = reply
        if case .stats(let id, var report) = reply {
            report[.openDescriptors] = CurrentProcess.openDescriptors
            report[.loopMicroseconds] = turns.quantiles(unit: 1)
            reply = .stats(id: id, report)
        }
        let frame = reply.encoded(reusing: connection.channel.takeStorage())
        switch attachment {
        case .nothing: connection.channel.enqueue(frame)
        case .descriptor(let buffer):
            connection.channel.enqueue(frame, descriptors: buffers[buffer].map { [$0.descriptor] } ?? [])
        case .payload(let buffer, let count):
            let payload = buffers[buffer].map {
                FrameChannel.FilePayload(file: $0.descriptor, count: count, name: buffer.number)
            }
            connection.channel.enqueue(frame, payload: payload)
        }
        unflushed.insert(client)
    }

    func flushClients() {
        while let id = unflushed.popFirst() {
            guard let client = clients[id] else { continue }
            do {
                let isEmpty = try client.channel.flush()
                for buffer in client.channel.takeSentPayloads() {
                    handle(.payloadSent(client.id, Identifier(number: buffer)))
                }
                if isEmpty, client.isClosing {
                    disconnect(client)
                } else if client.channel.queuedBytes > ClientConnection.maximumQueuedBytes {
                    log.warning("a client that does not read its answers is disconnected")
                    disconnect(client)
                } else {
                    if client.channel.isStalled { stalled.insert(id) }
                    let wanted = client.wanted
                    if wanted != client.watched {
                        client.watched = wanted
                        try queue.change(
                            client.channel.socket.raw, token: Self.token(.client, id.number), reading: wanted.reading,
                            writing: wanted.writing)
                    }
                }
            } catch {
                disconnect(client)
            }
        }
    }

    private func disconnect(_ client: ClientConnection) {
        queue.remove(client.channel.socket.raw)
        clients[client.id] = nil
        unflushed.remove(client.id)
        handle(.clientDisconnected(client.id))
    }
}
