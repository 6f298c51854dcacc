internal import CTransfer
import HTTPValues
internal import IPCProtocol
internal import IPCTransport
internal import LinuxSystem
import SystemValues
import WorkerProtocol

/// Takes orders from the broker and runs any number of transfers on one thread. libcurl determines the sockets to watch
/// and the time of its next call; epoll waits for all sockets and the broker.
@safe final class FetchLoop {
    /// The limit of idle connections that are kept for further requests.
    private static let maxConnections = 64
    /// Progress is not reported while this many bytes wait for the broker to read.
    private static let maxQueuedBytes = 1 << 20
    private static let channelToken = UInt64.max

    private let channel: FrameChannel
    private let policy: AddressPolicy
    private let network: NetworkSettings
    private let speedFloor: SpeedFloor
    private let log: Log
    private let queue: EventQueue
    private let multi: UnsafeMutableRawPointer
    private var transfers: [Int: Transfer] = [:]
    /// Ended transfers whose last report waits for a file, because a later one can continue from their bytes.
    private var endings: [Int: (transfer: Transfer, report: FetchReport)] = [:]
    private var watched: Set<Int32> = []
    /// The time at which libcurl wants to be called.
    private var timer: Instant?
    /// The next time at which libcurl is asked to check stalled transfers.
    private var nextStallCheck: Instant?
    private var watchesWriting = false

    /// Creates a loop that takes orders from `channel`. All transfers go by way of `network`, and
    /// fail when they are slower than `speedFloor`. Throws `SystemError`.
    init(
        channel: FrameChannel, policy: AddressPolicy, network: NetworkSettings, speedFloor: SpeedFloor, log: Log
    ) throws(SystemError) {
        (self.channel, self.log) = (channel, log)
        (self.policy, self.network, self.speedFloor) = (policy, network, speedFloor)
        queue = try EventQueue()
        guard let multi = unsafe curl_multi_init() else { throw SystemError("curl_multi_init") }
        unsafe self.multi = unsafe multi
        try channel.socket.setNonBlocking()
        try queue.add(channel.socket.raw, token: Self.channelToken)
        let this = unsafe Unmanaged.passUnretained(self).toOpaque()
        unsafe ctransfer_multi_set_socket_callback(multi, socketCallback, this)
        unsafe ctransfer_multi_set_timer_callback(multi, timerCallback, this)
        unsafe ctransfer_multi_set_number(multi, CURLMOPT_PIPELINING, CURLPIPE_MULTIPLEX)
        unsafe ctransfer_multi_set_number(multi, CURLMOPT_MAXCONNECTS, Self.maxConnections)
    }

    deinit {
        for transfer in transfers.values { unsafe curl_multi_remove_handle(multi, transfer.handle.raw) }
        unsafe curl_multi_cleanup(multi)
    }

    /// Carries out orders until the broker closes the channel. Throws `SystemError`, `EPIPE` among them when the broker
    /// has closed; `FrameChannel.Failure` for bytes that are not an order.
    func run() throws {
        while true {
            try flush()
            for event in try queue.wait(until: nextWork) {
                if event.token == Self.channelToken {
                    if event.readable, try !takeOrders() { return }
                } else {
                    let mask = (event.readable ? CURL_CSELECT_IN : 0) | (event.writable ? CURL_CSELECT_OUT : 0)
                    act(on: Int32(event.token), mask)
                }
            }
            log.writeCounts()
            if let timer, timer <= .now {
                self.timer = nil
                act(on: CURL_SOCKET_TIMEOUT, 0)
            }
            wakeStalled()
            collectEnded()
            endDraining()
            report()
        }
    }

    /// When work is due; nil for none.
    private var nextWork: Instant? {
        let reports = mayReportProgress ? transfers.values.map(\.progressDue) : []
        let times = [timer, nextStallCheck, log.nextCount] + transfers.values.map(\.drainDeadline) + reports
        return times.compactMap { $0 }.min()
    }

    // MARK: The broker

    /// Takes the orders that have arrived; false when the broker has closed the channel.
    private func takeOrders() throws -> Bool {
        if try channel.fill() == .end { return false }
        while let (order, descriptors) = try channel.nextMessage(FetchOrder.self) {
            switch order {
            case .fetch(let job): start(job, body: descriptors.first)
            case .file(let job): proceed(job, with: descriptors[0])
            case .stop(let job): stop(job)
            }
        }
        return true
    }

    /// Queues a report; in place of one that no frame can hold, its job's failure.
    private func send(_ report: FetchReport, body: [UInt8]? = nil) {
        do { try channel.enqueue(report, bytes: body) } catch {
            log.error(.job, "a report \(report.type) of \(error.length) bytes is too long")
            if let failure = report.failureInPlace { try? channel.enqueue(failure) }
        }
    }

    private func flush() throws(SystemError) {
        let waits = try !channel.flush()
        if waits != watchesWriting {
            watchesWriting = waits
            try queue.change(channel.socket.raw, token: Self.channelToken, reading: true, writing: waits)
        }
    }

    /// Sends the last report of a failed or stopped transfer, when its bytes that can be continued have a file.
    private func end(_ transfer: Transfer, _ report: FetchReport) {
        guard transfer.leavesBytesInMemory else { return send(report) }
        endings[transfer.job.id] = (transfer, report)
        if let request = transfer.takeLastFileRequest() { send(request) }
    }

    /// Goes on with a body in a file. The transfer may have ended since it asked for that.
    private func proceed(_ job: Int, with file: FileDescriptor) {
        if let (transfer, report) = endings.removeValue(forKey: job) {
            _ = transfer.take(file)
            // Of bytes that cannot be written, nothing can be continued.
            return send(transfer.leavesBytesInMemory ? report.withoutBytes : report)
        }
        guard let transfer = transfers[job], transfer.take(file) else { return }
        unsafe curl_easy_pause(transfer.handle.raw, CURLPAUSE_CONT)
    }

    private func start(_ job: FetchJob, body: FileDescriptor?) {
        forget(job.id)
        do {
            let transfer = try Transfer(job, body: body, policy: policy, network: network, speedFloor: speedFloor)
            transfers[job.id] = transfer
            log.debug(.job, [LogField("job", job.id), LogField("stage", "started")])
            add(transfer)
        } catch {
            send(FetchReport.failed(job: job.id, FetchFailure(error)))
        }
    }

    private func stop(_ job: Int) {
        if let transfer = transfers[job] {
            if let report = transfer.takeBeginning() { send(report) }
            remove(transfer)
            end(transfer, .stopped(job: job, received: transfer.continuableBytes))
        } else if let (_, report) = endings.removeValue(forKey: job) {
            // The broker has no file.
            send(report.withoutBytes)
        }
    }

    /// Ends the job that has the number of a new one. Numbers are unique, so this is an error of the broker.
    private func forget(_ job: Int) {
        endings[job] = nil
        guard let transfer = transfers[job] else { return }
        log.error(.job, "job \(job) was ordered twice")
        remove(transfer)
    }

    private var mayReportProgress: Bool { channel.queuedBytes < Self.maxQueuedBytes }

    private func report() {
        let mayReportProgress = mayReportProgress
        let now = Instant.now
        for transfer in transfers.values {
            if let report = transfer.takeBeginning() { send(report) }
            if let report = transfer.takeFileRequest(now: now) { send(report) }
            if mayReportProgress, let report = transfer.takeProgress(now: now) { send(report) }
        }
    }

    // MARK: libcurl

    private func act(on socket: Int32, _ mask: Int32) {
        var running: Int32 = 0
        let code = unsafe curl_multi_socket_action(multi, socket, mask, &running)
        if code != CURLM_OK {
            log.error(.job, "curl_multi_socket_action: \(unsafe String(cString: curl_multi_strerror(code)))")
        }
    }

    private func add(_ transfer: Transfer) {
        let code = unsafe curl_multi_add_handle(multi, transfer.handle.raw)
        guard code != CURLM_OK else { return }
        transfers[transfer.job.id] = nil
        let reason = unsafe String(cString: curl_multi_strerror(code))
        let error = WireError(.internal, "No transfer can be added: \(reason).")
        send(.failed(job: transfer.job.id, FetchFailure(error)))
    }

    private func remove(_ transfer: Transfer) {
        unsafe curl_multi_remove_handle(multi, transfer.handle.raw)
        transfers[transfer.job.id] = nil
    }

    /// Makes libcurl check all transfers while one of them may be stalled.
    private func wakeStalled() {
        guard transfers.values.contains(where: \.mayBeStalled) else { return nextStallCheck = nil }
        let now = Instant.now
        if let nextStallCheck, nextStallCheck <= now {
            var running: Int32 = 0
            unsafe curl_multi_perform(multi, &running)
        }
        if nextStallCheck.map({ $0 <= now }) ?? true { nextStallCheck = now.adding(milliseconds: Self.stallCheckMs) }
    }

    private static let stallCheckMs = 100

    private func collectEnded() {
        var left: Int32 = 0
        while let message = unsafe curl_multi_info_read(multi, &left) {
            guard unsafe message.pointee.msg == CURLMSG_DONE, let handle = unsafe message.pointee.easy_handle,
                let transfer = unsafe Transfer.of(handle)
            else { continue }
            finishHop(transfer, transfer.outcome(endedWith: unsafe message.pointee.data.result))
        }
    }

    /// Ends the hops whose outcome is known and whose response has not ended in time.
    private func endDraining() {
        let now = Instant.now
        for transfer in transfers.values {
            if let deadline = transfer.drainDeadline, deadline <= now {
                finishHop(transfer, transfer.outcome(endedWith: CURLE_ABORTED_BY_CALLBACK))
            }
        }
    }

    private func finishHop(_ transfer: Transfer, _ outcome: Transfer.Outcome) {
        let job = transfer.job.id
        // A response may begin and fail in one event-loop iteration.
        if let report = transfer.takeBeginning() { send(report) }
        unsafe curl_multi_remove_handle(multi, transfer.handle.raw)
        switch outcome {
        case .nextHop:
            let before = transfer.url
            transfer.prepareNextHop()
            if !transfer.url.hasSameOrigin(as: before) {
                send(.redirected(job: job, to: transfer.url.root))
            }
            add(transfer)
        case .ended(let report, let body):
            transfers[job] = nil
            let fields = [LogField("job", job), LogField("stage", report.type)]
            switch report {
            case .finished(_, let result): log.debug(.job, fields + [LogField("bytes", result.bytes)])
            case .failed(_, let failure):
                log.debug(.job, fields + [LogField("code", failure.error.code.rawValue)], failure.error.message)
            default: log.debug(.job, fields)
            }
            if case .failed = report { end(transfer, report) } else { send(report, body: body) }
        }
    }

    // MARK: What libcurl calls

    fileprivate func watch(_ socket: Int32, _ what: Int32) {
        if what == CURL_POLL_REMOVE {
            if watched.remove(socket) != nil { queue.remove(socket) }
            return
        }
        let (reading, writing) = (what & CURL_POLL_IN != 0, what & CURL_POLL_OUT != 0)
        let token = UInt64(socket)
        do {
            if watched.insert(socket).inserted {
                try queue.add(socket, token: token, reading: reading, writing: writing)
            } else {
                try queue.change(socket, token: token, reading: reading, writing: writing)
            }
        } catch {
            log.error(.job, "\(error)")
        }
    }

    fileprivate func setTimer(milliseconds: Int) {
        timer = milliseconds < 0 ? nil : .now.adding(milliseconds: milliseconds)
    }
}

extension FetchReport {
    /// The same end, without bytes that can be continued.
    fileprivate var withoutBytes: FetchReport {
        switch self {
        case .failed(let job, var failure):
            failure.received = 0
            return .failed(job: job, failure)
        case .stopped(let job, _): return .stopped(job: job, received: 0)
        default: return self
        }
    }
}

// libcurl calls these from within its functions. The context is the loop, which outlives `multi`.

private let socketCallback: curl_socket_callback = { _, socket, what, context, _ in
    unsafe context.map { unsafe Unmanaged<FetchLoop>.fromOpaque($0).takeUnretainedValue() }?.watch(socket, what)
    return 0
}

private let timerCallback: curl_multi_timer_callback = { _, milliseconds, context in
    unsafe context.map { unsafe Unmanaged<FetchLoop>.fromOpaque($0).takeUnretainedValue() }?
        .setTimer(milliseconds: milliseconds)
    return 0
}
