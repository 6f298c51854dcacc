import BrokerCore
import IPCProtocol
import IPCTransport
import JSONCoding
import LinuxSystem
import SharedCache
import SystemValues

// Another program in the place of this one, for a client's `upgrade`.
extension Broker {
    /// The time for which requests are waited for, while clients are served, and then while they are not.
    private static let waitingMicroseconds = 2_000_000
    private static let pausingMicroseconds = 100_000
    /// The time in which the new program must read the settings, while clients are served, and that in which it must
    /// then say that it could take over.
    private static let readingMilliseconds = 5000
    private static let checkMilliseconds = 10_000
    /// The share of the memory for images that those in the broker's own memory may take in the state. They are copied,
    /// and others are not.
    private static let shareOfCopies = 8

    // MARK: Waiting

    /// Has the installed program read the settings; `advanceUpgrade` goes on.
    func upgrade(for client: ClientID, id: Int) {
        if pendingUpgrade != nil {
            return handle(.upgradeEnded(client, id: id, WireError(.overloaded, "An upgrade has begun already.")))
        }
        do throws(WireError) {
            if lateCheck != nil {
                let message = "A file system with settings has not answered an earlier upgrade yet."
                throw WireError(.overloaded, message)
            }
            // An empty state, because the state changes until clients are paused.
            let check = try UpgradeCheck(of: try installedProgram(), with: try seal(KeptState()))
            let deadline = Instant.now.adding(milliseconds: Self.readingMilliseconds)
            pendingUpgrade = PendingUpgrade(client: client, id: id, stage: .reading(check, deadline: deadline))
        } catch {
            log.error(.upgrade, "upgrade: this program goes on: \(error.message)")
            handle(.upgradeEnded(client, id: id, error))
        }
    }

    /// Takes the next step of an upgrade. Called in each iteration of the event loop.
    func advanceUpgrade() {
        if lateCheck?.reap() != nil { lateCheck = nil }
        guard let upgrade = pendingUpgrade else { return }
        if state.isDraining { return endUpgrade(WireError(.shuttingDown, "The broker is ending.")) }
        if let pendingReload {
            // This program answers those who wait for the settings, within their own deadline. Clients that are paused
            // would wait as long.
            if !pendingReload.isLate, !upgrade.pausesClients { return }
            // The kernel would wait for the thread that reads.
            return endUpgrade(WireError(.overloaded, "The sources of the settings are still being read."))
        }
        func isUnfinished(since begun: Instant, upTo microseconds: Int) -> Bool {
            Instant.now.microseconds(since: begun) < microseconds
                && (state.isUnfinished(besides: (upgrade.client, upgrade.id))
                    || clients.values.contains(where: \.isInsideMessage))
        }
        switch upgrade.stage {
        case .reading(let check, let deadline): finishReading(of: check, deadline)
        case .waiting(let since):
            if !isUnfinished(since: since, upTo: Self.waitingMicroseconds) { pauseClients() }
        case .pausing(let since):
            if isUnfinished(since: since, upTo: Self.pausingMicroseconds) { return }
            endUpgrade(replaceProgram(for: upgrade))
        }
    }

    /// Waits for unfinished requests once the installed program has read the settings.
    private func finishReading(of check: UpgradeCheck, _ deadline: Instant) {
        switch check.answer(within: 0) {
        case .success:
            log.notice(.upgrade, "upgrade: waiting for what is unfinished")
            pendingUpgrade?.stage = .waiting(since: .now)
        case .failure(let error): endUpgrade(error)
        case nil where deadline <= .now:
            let seconds = Self.readingMilliseconds / 1000
            endUpgrade(
                WireError(.timeout, "\(check.path) has not read the settings in \(seconds) s: does a file system hang?")
            )
        case nil: break
        }
    }

    private func pauseClients() {
        pendingUpgrade?.stage = .pausing(since: .now)
        for client in clients.values {
            client.isPaused = true
            unflushed.insert(client.id)
        }
        stopAccepting()
    }

    /// Goes on as before.
    private func endUpgrade(_ error: WireError) {
        guard let upgrade = pendingUpgrade else { return }
        pendingUpgrade = nil
        log.error(.upgrade, "upgrade: this program goes on: \(error.message)")
        switch upgrade.stage {
        case .reading(let check, _): end(check)
        case .waiting: break
        case .pausing:
            for client in clients.values {
                client.isPaused = false
                waitForTurn(client)
                unflushed.insert(client.id)
            }
        }
        handle(.upgradeEnded(upgrade.client, id: upgrade.id, error))
    }

    private func end(_ check: UpgradeCheck) {
        check.child.send(SignalNumber.kill)
        // One that waits for a file system exits when that answers.
        if check.child.reap() == nil { lateCheck = check.child }
    }

    // MARK: Handing over

    /// Becomes the installed program. Returns the reason if that is not possible.
    private func replaceProgram(for upgrade: PendingUpgrade) -> WireError {
        leaveBehind(for: upgrade)
        // Objects own all descriptors that the state names until this function ends: none is closed before.
        let (state, descriptors) = keptState(for: upgrade)
        let (path, memory): (String, FileDescriptor)
        do throws(WireError) {
            path = try installedProgram()
            memory = try seal(state)
            let check = try UpgradeCheck(of: path, with: memory)
            guard let answer = check.answer(within: Self.checkMilliseconds) else {
                end(check)
                throw WireError(.internal, "\(path) does not say in time that it could take over.")
            }
            try answer.get()
        } catch {
            return error
        }

        log.notice(.upgrade, "upgrade: \(path) takes over")
        page?.end()
        killHelpers()
        let words =
            [CommandLine.arguments.first ?? path, TakeOverWords.takeOver, "\(memory.raw)"]
            + TakeOverWords.brokerArguments
        for program in [path, "/proc/self/exe"] {
            do throws(SystemError) {
                for descriptor in descriptors + [memory] { try FileDescriptor.keepOnExec(descriptor.raw) }
                try CurrentProcess.become(program: program, words)
            } catch {
                // The workers are gone, so this program starts once more, too.
                log.error(.upgrade, "upgrade: \(program) cannot be started: \(error)")
            }
        }
        // Otherwise they may be released before the calls, after their last use.
        withExtendedLifetime((descriptors, memory)) {}
        CurrentProcess.exit(1)
    }

    /// Ends the connections of clients that cannot be handed over, or that have too much.
    private func leaveBehind(for upgrade: PendingUpgrade) {
        var left = state.unrepeatable(besides: (upgrade.client, upgrade.id))
        for client in clients.values where !client.isClosing {
            if client.isBeingReceived, receiver.forget(client.id) { client.isBeingReceived = false }
            if client.isInsideMessage || client.hasLongUpload { left.insert(client.id) }
        }
        for client in left.sorted() { handle(.clientLeftBehind(client)) }
        sendOrders()
        flushClients()
        let loads = clients.values.filter { !$0.isClosing }.map { client in
            HandoverShares.Load(
                client: client.id, user: client.uid, isAdmin: client.isAdmin,
                weight: state.pendingWeight(of: client.id),
                input: client.channel.bufferedBytes + (client.upload?.received ?? 0), output: client.channel.queuedBytes
            )
        }
        let refused = HandoverShares.refused(loads)
        for client in refused { handle(.clientLeftBehind(client)) }
        flushClients()
        let count = left.count + refused.count
        if count > 0 { log.notice(.upgrade, "upgrade: \(count) connections are not handed over") }
    }

    /// Kills all other processes. The next process waits for them, because the descriptors of users may hold some up;
    /// only those that others share files with have exited when this returns.
    private func killHelpers() {
        let tiers = workers.values.filter { $0.kind == .cache || $0.kind == .tier }
        for tier in tiers { tier.channel.endSending() }
        for child in children.map(\.child) where !tiers.contains(where: { $0.child === child }) {
            child.send(SignalNumber.kill)
        }
        end(tiers.map(\.child), within: Self.pausingMicroseconds / 1000)
    }

    /// All other processes, with the users whose descriptors hold some of them up.
    private var children: [(child: ChildProcess, heldUpBy: UInt32?)] {
        let own = workers.values.map(\.child) + [forkServer?.child, lateCheck].compactMap(\.self) + formerServers
        return receiver.processes + (own + closer.processes).map { ($0, nil) }
    }

    private func installedProgram() throws(WireError) -> String {
        guard let path = CurrentProcess.executablePath else {
            throw WireError(.internal, "The program's path is unknown.")
        }
        return path
    }

    private func seal(_ state: KeptState) throws(WireError) -> FileDescriptor {
        do {
            let (memory, omitted) = try state.sealed()
            if omitted > 0 { log.warning(.upgrade, "upgrade: \(omitted) images with very long texts are left out") }
            return memory
        } catch {
            throw WireError(.outOfMemory, "There is no room for the state: \(error).")
        }
    }

    /// The state for the next process, and the descriptors that it names.
    private func keptState(for upgrade: PendingUpgrade) -> (KeptState, [FileDescriptor]) {
        var kept = state.kept()
        var descriptors: [FileDescriptor] = []
        func number(_ file: FileDescriptor) -> Int {
            descriptors.append(file)
            return Int(file.raw)
        }
        var process = KeptState.Process(listener: number(listener.descriptor), path: listener.path)
        if let identity = listener.identity {
            process.device = Int(Int64(bitPattern: identity.device))
            process.inode = Int(Int64(bitPattern: identity.inode))
        }
        process.remover = (remover?.socket).map(number)
        process.cacheDirectory = launcher.cacheDirectory.map(number)
        process.stored = store?.images.sorted() ?? []
        process.storedState = store?.lastState ?? 0
        process.children = children.map { KeptState.Child(pid: Int($0.child.pid), user: $0.heldUpBy) }
        for index in kept.segments.indices {
            if let file = buffers.segment(kept.segments[index].number) {
                kept.segments[index].descriptor = number(file)
            }
        }
        kept.segments.removeAll { $0.descriptor == 0 }
        // The descriptors that others have made, or that others have a connection with, and that no client of the next
        // process has. To close them may take as long as these like.
        var closing = workers.values.map(\.channel.socket) + [forkServer?.socket].compactMap(\.self) + receiver.sockets
        closing += receiver.takeWaitingToClose(closingConnections) + closer.pending
        closing += products.values.compactMap(\.descriptor)
        var copiedBytes = 0
        for index in kept.contents.indices {
            kept.contents[index].buffers = kept.contents[index].buffers.compactMap { buffer in
                var buffer = buffer
                if buffer.segment != nil { return buffer }
                let id = BufferID(number: buffer.number)
                if let memfd = buffers.memfd(of: id) {
                    guard let inode = try? memfd.inode() else { return nil }
                    buffer.place = KeptBuffer.Place(descriptor: number(memfd), inode: inode)
                } else {
                    guard let bytes = buffers.bytes(of: id) else { return nil }
                    copiedBytes += bytes.count
                    if copiedBytes > configuration.limits.memoryBytes / Self.shareOfCopies { return nil }
                    buffer.contents = bytes
                }
                return buffer
            }
        }
        kept.contents.removeAll(where: \.buffers.isEmpty)
        for client in clients.values.sorted(by: { $0.id < $1.id }) {
            if client.isClosing || (try? client.channel.receivePeeked()) == nil {
                closing.append(client.channel.socket)
                continue
            }
            var connection = state.kept(client.id, descriptor: number(client.channel.socket))
            connection.input += client.unreadInput
            connection.unread = client.channel.countUnreadDescriptors()
            if client.id == upgrade.client { connection.upgrade = upgrade.id }
            for unsent in client.channel.unsent {
                var output = KeptClient.Output(bytes: unsent.bytes)
                output.descriptors = unsent.descriptors.map(number)
                output.payload = unsent.payload.map { payload in
                    KeptClient.Payload(
                        descriptor: number(payload.file), offset: payload.offset, count: payload.count,
                        buffer: payload.name)
                }
                connection.output.append(output)
            }
            kept.clients.append(connection)
        }
        process.closing = closing.map(number)
        process.departed = unread.left.map {
            KeptState.Departed(descriptor: number($0.socket), user: $0.user, unread: $0.count)
        }
        kept.process = process
        return (kept, descriptors)
    }

    // MARK: Taking over

    /// Goes on where the process stopped whose place this one takes.
    func takeOver(_ inheritance: Inheritance) {
        if let process = inheritance.state.process {
            store?.takeOver(images: process.stored, lastState: process.storedState)
        }
        let images = RestoredImages(inheritance.state, file: inheritance.file) { place in
            place.descriptor.flatMap { inheritance.file($0) }
        }
        let needed = state.restore(images.state, at: .now, unixMs: WallClock.milliseconds)
        images.insert(needed, into: buffers)
        for kept in images.state.clients { takeOver(kept, inheritance) }
        state.endEmptySegments()
        for descriptor in inheritance.closing {
            let isConnection = (try? UnixSocket.peerCredentials(of: descriptor)) != nil
            if isConnection { closingConnections(descriptor) } else { closingMemory(descriptor) }
        }
        for kept in inheritance.state.process?.departed ?? [] {
            let socket = FileDescriptor(owning: Int32(kept.descriptor), disposal: closingConnections)
            unread.takeOver(socket, of: kept.user, unread: kept.unread)
            handle(.connectionLingers(uid: kept.user))
        }
        for kept in inheritance.state.process?.children ?? [] {
            // One that has exited before the other program did was reaped by that.
            guard let child = try? ChildProcess(adopting: Int32(kept.pid)) else { continue }
            child.send(SignalNumber.kill)
            if let user = kept.user { receiver.adopt(child, heldUpBy: user) } else { formerServers.append(child) }
        }
        inheritance.release()
        let refused = images.refused > 0 ? ", \(images.refused) refused" : ""
        log.notice(.upgrade, "took over \(needed.count) images\(refused) and \(clients.count) clients")
    }

    private func takeOver(_ kept: KeptClient, _ inheritance: Inheritance) {
        let socket = FileDescriptor(owning: Int32(kept.descriptor), disposal: closingConnections)
        guard let client = try? connect(socket) else { return }
        state.restore(kept, of: client.id)
        client.channel.takeOver(unread: kept.unread)
        for output in kept.output {
            let payload = output.payload.flatMap { payload in
                inheritance.file(payload.descriptor).map {
                    FrameChannel.FilePayload(
                        file: $0, offset: payload.offset, count: payload.count, name: payload.buffer)
                }
            }
            client.channel.enqueue(
                output.bytes, descriptors: output.descriptors.compactMap(inheritance.file), payload: payload)
        }
        if !kept.input.isEmpty {
            client.channel.take(kept.input[...], nil)
            client.hasMore = true
        }
        waitForTurn(client)
        unflushed.insert(client.id)
        if let id = kept.upgrade { handle(.upgradeEnded(client.id, id: id, nil)) }
    }
}

extension ClientConnection {
    /// What it has sent and the broker has not read, as it would send it again.
    fileprivate var unreadInput: [UInt8] {
        var input = upload?.resent ?? []
        let skipped = channel.payloadToSkip
        if skipped > 0 {
            // A message without an effect, whose payload is skipped.
            let frame = try? Frame.encode { fields in
                fields.constant("type", "release")
                fields.constant("payload", skipped)
            }
            input += frame ?? []
        }
        return input + channel.unread
    }
}
