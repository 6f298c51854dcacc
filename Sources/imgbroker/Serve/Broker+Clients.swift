import BrokerCore
import IPCProtocol
import IPCTransport
import JSONCoding
import LinuxSystem
import SharedCache
import SystemValues

// Connections: accepting them, reading requests, sending replies, and ending those of clients that do not read.
extension Broker {
    func accept() {
        // Connections that were closed since take no place.
        handleReceiverEvents()
        // A few at a time, so that a flood of connections does not keep the loop.
        for _ in 0..<64 {
            if isFull { return stopAccepting() }
            do {
                guard let socket = try UnixSocket.accept(from: listener.descriptor, disposal: closingConnections) else {
                    return
                }
                acceptAgainAt = nil
                _ = try connect(socket)
            } catch {
                // Logged once for as long as it lasts, because it is retried.
                if acceptAgainAt == nil { log.warning(.client, "a connection could not be accepted: \(error)") }
                if [SystemError.tooManyOpenFiles, SystemError.tooManyOpenFilesInSystem].contains(error.code) {
                    acceptAgainAt = Instant.now.adding(milliseconds: 100)
                    return stopAccepting()
                }
            }
        }
    }

    func connect(_ socket: FileDescriptor) throws(SystemError) -> ClientConnection {
        let peer = try UnixSocket.peerCredentials(of: socket)
        // Administrators are root, the broker's own user, and the members of one group, if there is one.
        let isAdmin = [0, CurrentProcess.uid].contains(peer.uid) || isMember(socket, of: configuration.adminGroup)
        let client = ClientConnection(
            id: clientIDs.next(), peer, isAdmin: isAdmin,
            seesFigures: isMember(socket, of: configuration.statsGroup), socket: socket,
            receivingInto: receiveBuffer)
        try queue.add(socket.raw, token: Self.token(.client, client.id.number))
        clients[client.id] = client
        let namespace = configuration.limits.mostSegmentImageBytes > 0 ? UnixSocket.peerMountNamespace(of: socket) : nil
        handle(
            .clientConnected(
                client.id, uid: client.uid, isAdmin: client.isAdmin, seesFigures: client.seesFigures,
                namespace: namespace))
        return client
    }

    /// Whether the process at the other end of a connection is in a group; false without a group.
    private func isMember(_ socket: FileDescriptor, of group: UInt32?) -> Bool {
        guard let group else { return false }
        return (try? UnixSocket.peerGroups(of: socket).contains(group)) ?? false
    }

    /// Connections that wait to be closed are not for long in the way. So while there are some, others wait in the
    /// backlog until the last place but one is free: a user without connections is admitted to that, and refused the
    /// last one.
    private var isFull: Bool {
        let lingering = receiver.lingering
        return clients.count + unread.left.count + lingering >= maximumClients - (lingering > 0 ? 1 : 0)
    }

    /// Takes what has become of local files, and which connections wait to be closed, or no longer do.
    func handleReceiverEvents() {
        for event in receiver.takeEvents() {
            if case .fileRead(let job) = event { fileRead(job) } else { handle(event) }
        }
    }

    /// Leaves new connections in the kernel's backlog for a moment. A watched listener would be reported all the time.
    func stopAccepting() {
        if isAccepting { queue.remove(listener.descriptor.raw) }
        isAccepting = false
    }

    func resumeAccepting() {
        guard !isAccepting, !state.isDraining, !isFull, pendingUpgrade?.pausesClients != true else { return }
        if let acceptAgainAt, Instant.now < acceptAgainAt { return }
        isAccepting = (try? queue.add(listener.descriptor.raw, token: Self.token(.listener))) != nil
    }

    func becameReadable(_ client: ClientConnection) {
        // While nothing is read from it, only its end is reported.
        if !client.watched.reading { return disconnect(client) }
        waitForTurn(client)
    }

    /// Serves a client's messages: those left from its last turn, otherwise newly received ones. `now` is the
    /// approximate time, and is advanced.
    func receive(from client: ClientConnection, at now: inout Instant) {
        if client.isPaused, !client.isInsideMessage { return }
        // Others may have taken more since its last turn.
        countUnsent(of: client)
        if client.hasMore { return takeFrames(from: client, at: &now) }
        if client.isClosing || client.isBeingReceived { return }
        // A client that must read first is reported again once it has.
        if client.isBackedUp {
            unflushed.insert(client.id)
            return
        }
        do {
            // The rest of a long frame leads to no immediate reply.
            switch try client.isInsideFrame ? client.channel.fill() : client.channel.fillPeeking() {
            case .wouldBlock: return
            case .end: return disconnect(client)
            case .received: break
            case .hasDescriptors:
                client.isBeingReceived = true
                receiver.receive(from: client.id, of: client.uid, on: client.channel.socket)
                unflushed.insert(client.id)
                return
            }
        } catch {
            return disconnect(client, isForced: true)
        }
        takeFrames(from: client, at: &now)
    }

    /// Takes a message with descriptors that a helper has received.
    func take(_ message: DescriptorReceiver.Message, from id: ClientID) {
        // It may have left while its message was received.
        guard let client = clients[id] else { return }
        client.isBeingReceived = false
        // Perhaps the helper has ended, and not the client.
        if message.isEnd { return disconnect(client, isForced: true) }
        client.channel.take(message.bytes, message.descriptor)
        client.hasMore = true
        waitForTurn(client)
        unflushed.insert(id)
    }

    /// The next step with a client's messages.
    private enum Step {
        case event(Event)
        /// The fast path has answered.
        case done
        /// More must arrive first.
        case waits
        /// It goes on in the next iteration.
        case goesOn
    }

    /// Serves the received messages of a client, for at most 2 ms, and until the client must read first.
    private func takeFrames(from client: ClientConnection, at now: inout Instant) {
        let begun = now
        var hasCompleted = false
        client.hasMore = true
        frames: while !client.isClosing, !client.isBackedUp {
            if now.microseconds(since: begun) >= ClientConnection.microsecondsAtOnce {
                waitForTurn(client)
                break
            }
            let hitsBefore = state.memoryHits
            let before = now
            switch nextStep(from: client, at: now) {
            case .done: hasCompleted = true
            case .waits:
                client.hasMore = false
                break frames
            case .goesOn:
                waitForTurn(client)
                break frames
            case .event(let event):
                hasCompleted = true
                if log.level == .debug { logRequest(event) }
                handle(event)
                if !uploads.isEmpty { uploads[client.id] = nil }
            }
            now = .now
            if state.memoryHits > hitsBefore { hits.record(microseconds: now.microseconds(since: before)) }
        }
        // Incomplete messages take time, too.
        if !hasCompleted { now = .now }
        countUnsent(of: client)
        if !client.hasMore {
            client.channel.closeDescriptors(keeping: client.isInsideFrame ? 1 : 0)
            countArriving(of: client)
        }
        noteArrival(client, hasCompleted: hasCompleted)
        unflushed.insert(client.id)
    }

    private func nextStep(from client: ClientConnection, at now: Instant) -> Step {
        while true {
            if let upload = client.upload { return receive(upload, from: client) }
            let text: ArraySlice<UInt8>
            do {
                guard let frame = try client.channel.nextFrame() else { return .waits }
                text = frame
            } catch {
                let message = "A frame of \(error.length) bytes: only 1 to \(Frame.maximumLength) are allowed."
                return .event(.streamBroken(client.id, WireError(.badFrame, message)))
            }
            if answerRepeated(text, to: client, at: now) { return .done }
            if let event = read(text, from: client) { return .event(event) }
        }
    }

    /// Answers a frame by the state's fast path; false when it must be read.
    private func answerRepeated(_ text: ArraySlice<UInt8>, to client: ClientConnection, at now: Instant) -> Bool {
        switch state.answerRepeated(text, from: client.id, at: now) {
        case nil: return false
        case .released(let changes): writePage(changes)
        case .image(let id, let rest, let buffer):
            log.debug(.answer, [.request(id, of: client.id), LogField("source", ImageReply.Source.memory.rawValue)])
            let frame = Reply.imageFrame(id: id, rest: rest, reusing: client.channel.takeStorage())
            guard let buffer else { client.channel.enqueue(frame); break }
            guard let descriptor = buffers[buffer] else {
                refuseBuffer(id, client)
                break
            }
            client.channel.enqueue(frame, descriptors: [descriptor])
        }
        return true
    }

    /// Reads a frame; nil when it is a `store` whose bytes have not arrived yet.
    private func read(_ text: ArraySlice<UInt8>, from client: ClientConnection) -> Event? {
        do {
            let (decoded, envelope) = try ClientMessage.decode(text)
            if envelope.payload > configuration.limits.maxDownloadBytes {
                let message = "A payload of \(envelope.payload) bytes is too long."
                return .streamBroken(client.id, WireError(.badFrame, message))
            }
            let areLost = envelope.descriptors > 0 && client.channel.areDescriptorsLost
            let kept = envelope.descriptors > 0 ? client.channel.keptDescriptor : nil
            let descriptors = client.channel.takeDescriptors(envelope.descriptors)
            let lost = WireError(.overloaded, "The broker can open no more descriptors at present.")
            if case .message(.store(let request)) = decoded {
                if areLost { return .messageRejected(client.id, id: request.id, lost) }
                if kept != nil { return .messageRejected(client.id, id: request.id, Upload.notInMemory) }
                return take(request, descriptors?.first, from: client)
            }
            client.channel.skipPayload(envelope.payload)
            switch decoded {
            case .message(let message) where message.isAboutFile:
                if areLost { return .messageRejected(client.id, id: message.id, lost) }
                return take(message, kept, descriptors?.first, from: client)
            case .message(let message): return .messageReceived(client.id, message)
            case .rejected(let id, let error): return .messageRejected(client.id, id: id, error)
            }
        } catch {
            let message = "Not a JSON object: expected \(error.expected) at byte \(error.offset)."
            return .streamBroken(client.id, WireError(.badFrame, message))
        }
    }

    // MARK: Stored bytes

    private func take(_ request: StoreRequest, _ descriptor: FileDescriptor?, from client: ClientConnection) -> Event? {
        do {
            if request.payload > 0 {
                do {
                    try take(request.payload, ofArrivingFor: client)
                    client.upload = try Upload(request)
                } catch {
                    client.channel.skipPayload(request.payload)
                    throw error as? WireError ?? WireError(.outOfMemory, "There is no room for the bytes: \(error).")
                }
                return nil
            }
            guard let descriptor else {
                throw WireError(.badRequest, "The descriptor that fds announces did not come.")
            }
            switch try Upload.look(at: descriptor, for: request, upTo: configuration.limits.maxDownloadBytes) {
            case .sealed(let buffer):
                uploads[client.id] = buffer
                return .storeReceived(client.id, request, bytes: buffer.size)
            case .file(let upload):
                try take(upload.size, ofArrivingFor: client)
                client.upload = upload
                return nil
            }
        } catch {
            return .messageRejected(client.id, id: request.id, error as? WireError ?? WireError(.internal, "\(error)"))
        }
    }

    /// Takes the received part of a payload, or the next part of a file.
    private func receive(_ upload: Upload, from client: ClientConnection) -> Step {
        var failure: WireError?
        do throws(SystemError) {
            if upload.isCopy {
                if try !upload.copyMore() {
                    failure = WireError(.badRequest, "The file has become shorter while it was copied.")
                }
            } else {
                try upload.append(client.channel.takePayload(upTo: upload.missing))
            }
            if failure == nil, upload.missing > 0 { return upload.isCopy ? .goesOn : .waits }
            if failure == nil { uploads[client.id] = try upload.sealed() }
        } catch  where error.call == "pread" {
            failure = WireError(.badRequest, "The descriptor cannot be read: \(error).")
        } catch {
            failure = WireError(.outOfMemory, "There is no room for the bytes: \(error).")
        }
        client.upload = nil
        giveBackArriving(of: client)
        guard let failure else { return .event(.storeReceived(client.id, upload.request, bytes: upload.size)) }
        if !upload.isCopy { client.channel.skipPayload(upload.missing) }
        return .event(.messageRejected(client.id, id: upload.request.id, failure))
    }

    // MARK: Arriving bytes

    /// Reserves room for bytes that a client is sending. Each message counts for at least a longest frame, because it
    /// takes a descriptor too.
    private func take(_ bytes: Int, ofArrivingFor client: ClientConnection) throws(WireError) {
        giveBackArriving(of: client)
        let amount = max(bytes, Frame.maximumLength)
        switch arriving.refusal(of: amount, own: 0, user: client.uid, isAdmin: client.isAdmin) {
        case nil:
            arriving.take(amount, for: client.uid)
            client.arriving = amount
        case .exhausted: throw WireError(.overloaded, "There is no room for the bytes at present.")
        case .share: throw WireError(.quotaExceeded, "This user's clients are sending much already.")
        }
    }

    private func giveBackArriving(of client: ClientConnection) {
        if client.arriving > 0 { arriving.give(client.arriving, from: client.uid) }
        client.arriving = 0
    }

    /// Reserves room for a long frame while it arrives.
    private func countArriving(of client: ClientConnection) {
        if client.upload != nil { return }
        if client.channel.bufferedBytes <= ClientConnection.smallFrame { return giveBackArriving(of: client) }
        if client.arriving > 0 { return }
        do {
            try take(Frame.maximumLength, ofArrivingFor: client)
        } catch {
            handle(.streamBroken(client.id, error))
        }
    }

    /// Reports to the state when an incomplete frame begins, and when it is complete.
    private func noteArrival(_ client: ClientConnection, hasCompleted: Bool) {
        // A complete frame has no deadline, even if it is not read yet.
        let isWaitedFor = client.isInsideFrame && !client.hasMore
        if client.hasBegunFrame, hasCompleted || !isWaitedFor {
            client.hasBegunFrame = false
            handle(.frameCompleted(client.id))
        }
        if !client.hasBegunFrame, isWaitedFor {
            client.hasBegunFrame = true
            handle(.frameBegun(client.id))
        }
    }

    func send(_ reply: Reply, _ attachment: Action.Attachment, to client: ClientID) {
        guard let connection = clients[client] else { return }
        if log.level == .debug { logAnswer(reply, to: client) }
        var reply = reply
        if case .stats(let id, var report) = reply, connection.seesFigures {
            report[.openDescriptors] = CurrentProcess.openDescriptors
            report[.hitMicroseconds] = hits.quantiles(unit: 1)
            report[.loopMicroseconds] = iterations.quantiles(unit: 1)
            report.histograms[.hit] = hits.distribution
            report.histograms[.reply] = replies.distribution
            report.histograms[.loop] = iterations.distribution
            reply = .stats(id: id, report)
        }
        if !lostPlaces.isEmpty, case .image(let id, let image) = reply,
            image.buffer.map({ lostPlaces.contains(BufferID(number: $0)) }) == true
        {
            return refuseBuffer(id, connection)
        }
        if case .image = reply {
            let microseconds = Instant.now.microseconds(since: handledAt)
            replies.record(microseconds: microseconds)
            if reply.isTraced { reply.endTrace(replyMicroseconds: microseconds) }
        }
        let frame = reply.encoded(reusing: connection.channel.takeStorage())
        switch attachment {
        case .nothing: connection.channel.enqueue(frame)
        case .page: connection.channel.enqueue(frame, descriptors: page.map { [$0.descriptor] } ?? [])
        case .descriptor(let buffer):
            guard let descriptor = buffers[buffer] else { return refuseBuffer(reply.id, connection) }
            connection.channel.enqueue(frame, descriptors: [descriptor])
        case .segment(let number):
            guard let descriptor = buffers.segment(number) else { return refuseBuffer(reply.id, connection) }
            connection.channel.enqueue(frame, descriptors: [descriptor])
        case .payload(let buffer, let offset, let count):
            // Never a segment: `sendfile` lends its pages to the socket, and they change when the place is used again.
            guard let file = buffers[buffer] else { return refuseBuffer(reply.id, connection) }
            let payload = FrameChannel.FilePayload(file: file, offset: offset, count: count, name: buffer.number)
            connection.channel.enqueue(frame, payload: payload)
        }
        unflushed.insert(client)
    }

    /// Answers instead of an image whose buffer could not get a memfd, and closes the connection: the lease that was
    /// granted ends with it.
    private func refuseBuffer(_ id: Int?, _ client: ClientConnection) {
        let error = WireError(.overloaded, "The broker has no memory or no descriptor for the image's buffer.")
        send(.error(id: id, error), .nothing, to: client.id)
        client.isClosing = true
    }

    /// The bytes of payloads sent in one iteration, to all clients together.
    private static let payloadBytesOfIteration = 8 << 20
    /// The least bytes sent to one client, below which the calls would take longer than the bytes.
    private static let payloadBytesOfClient = 4096

    func flushClients() {
        // In equal parts. A client that could take more is reported as writable again.
        let readers = unflushed.count { clients[$0].map { $0.channel.queuedPayloads > 0 } ?? false }
        let share = max(Self.payloadBytesOfIteration / max(readers, 1), Self.payloadBytesOfClient)
        while let id = unflushed.popFirst() {
            guard let client = clients[id] else { continue }
            do {
                let queued = client.channel.queuedDescriptors
                let sentBefore = client.channel.sentBytes
                if queued > 0 {
                    client.channel.maximumUnread = unread.allowance(of: client, among: clients, at: iterationBegunAt)
                }
                let isEmpty = try client.channel.flush(payloadBytes: share)
                // Only after its replies are sent: otherwise a blocked client would be woken twice.
                try client.channel.receivePeeked()
                unread.sent(queued - client.channel.queuedDescriptors)
                if queued > 0 { countUnsent(of: client) }
                for buffer in client.channel.takeSentPayloads() {
                    handle(.payloadSent(client.id, Identifier(number: buffer)))
                }
                if isEmpty, client.isClosing {
                    disconnect(client, isForced: true)
                } else if client.channel.queuedBytes > ClientConnection.maximumQueuedBytes {
                    log.warning(.client, "a client that does not read its answers is disconnected")
                    disconnect(client, isForced: true)
                } else {
                    noteSending(of: client, before: sentBefore)
                    if client.channel.isStalled { stalled.insert(id) }
                    if client.hasMore, !client.isClosing, !client.isBackedUp { waitForTurn(client) }
                    let wanted = client.wanted
                    if wanted != client.watched {
                        client.watched = wanted
                        try queue.change(
                            client.channel.socket.raw, token: Self.token(.client, id.number), reading: wanted.reading,
                            writing: wanted.writing)
                    }
                }
            } catch {
                disconnect(
                    client, isForced: ![SystemError.brokenPipe, SystemError.connectionReset].contains(error.code))
            }
        }
    }

    /// Counts the descriptors that wait to be sent to a client, and sets how many may: one always, which does not
    /// count, and more within its share and that of its user.
    private func countUnsent(of client: ClientConnection) {
        let count = max(0, client.channel.queuedDescriptors - 1)
        if count != client.unsentDescriptors {
            giveBackUnsent(of: client)
            if count > 0 { unsentDescriptors.take(count, for: client.uid) }
            client.unsentDescriptors = count
        }
        // While nobody has any, the client's own share is the smaller one.
        let room = unsentDescriptors.room(
            own: count, user: client.uid, isAdmin: client.isAdmin || unsentDescriptors.taken == 0)
        client.mostUnsentDescriptors = min(1 + count + room, ClientConnection.backPressureDescriptors)
    }

    private func giveBackUnsent(of client: ClientConnection) {
        if client.unsentDescriptors > 0 { unsentDescriptors.give(client.unsentDescriptors, from: client.uid) }
        client.unsentDescriptors = 0
    }

    /// Notes whether a client has accepted bytes in a flush.
    private func noteSending(of client: ClientConnection, before sent: Int) {
        if !client.channel.hasOutgoing {
            if client.blockedSince != nil { blocked.remove(client.id) }
            client.blockedSince = nil
        } else if client.blockedSince == nil || client.channel.sentBytes != sent
            || client.channel.isStalled && client.channel.countUnreadDescriptors() == 0
        {
            // The last: its descriptors wait for those of others.
            client.blockedSince = iterationBegunAt
            blocked.insert(client.id)
        }
    }

    /// Disconnects clients that have accepted nothing for a while. No event would ever report one that has sent its own
    /// end of the connection over it and has exited.
    func disconnectBlocked() {
        for id in blocked {
            guard let client = clients[id], let since = client.blockedSince else {
                blocked.remove(id)
                continue
            }
            if iterationBegunAt.microseconds(since: since) < ClientConnection.sendingMicroseconds { continue }
            log.warning(.client, "a client that has accepted no data for 30 s is disconnected")
            disconnect(client, isForced: true)
        }
    }

    /// `isForced` if the client has not ended the connection itself.
    func disconnect(_ client: ClientConnection, isForced: Bool = false) {
        blocked.remove(client.id)
        if client.isBeingReceived { receiver.forget(client.id) }
        queue.remove(client.channel.socket.raw)
        giveBackArriving(of: client)
        giveBackUnsent(of: client)
        if unread.leave(client) { handle(.connectionLingers(uid: client.uid)) }
        clients[client.id] = nil
        unflushed.remove(client.id)
        handle(.clientDisconnected(client.id, isForced: isForced))
    }
}
