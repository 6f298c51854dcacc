import Foundation
import HTTPValues
import IPCProtocol
import SystemValues
import WorkerProtocol

@testable import BrokerCore

/// The time of the core's decisions for small images that are downloaded, decoded along with their digest, and saved:
/// the events of a client with 64 requests in flight, whose workers answer at once.
struct LoadMeasure {
    private var state: BrokerState
    private var now = Instant(nanoseconds: 1_000_000_000)
    private var unixMs = 1_700_000_000_000
    private var events: [Event] = []
    private var requests: ArraySlice<GetRequest>
    private var replies = 0
    /// The nanoseconds and the number of the events of each kind.
    private var figures: [String: (nanoseconds: Int, count: Int)] = [:]

    private static let client = ClientID(number: 1)
    private static let inFlight = 64

    private init(_ count: Int) throws {
        var limits = BrokerLimits()
        limits.memoryBytes = 64 << 20
        limits.usesDisk = true
        limits.mostSegmentImageBytes = BrokerLimits.usualSegmentImageBytes
        state = BrokerState(limits: limits, seed: 1, at: now)
        requests = try (0..<count).map {
            GetRequest(id: $0, url: try SourceURL("http://origin.test/images/\($0).jpg"), options: GetOptions())
        }[...]
    }

    /// Prints the nanoseconds that an image takes, and those of its events.
    static func showTime(_ count: Int) throws {
        for _ in 0..<3 {
            var measure = try LoadMeasure(count)
            measure.run()
            guard measure.replies > 0 else { return }
            let sum = measure.figures.values.reduce(0) { $0 + $1.nanoseconds }
            print("\(sum / measure.replies) ns an image")
            for (name, figure) in measure.figures.sorted(by: { $0.key < $1.key }) {
                print("    \(name): \(figure.nanoseconds / figure.count) ns, \(figure.count)")
            }
        }
    }

    private mutating func run() {
        handle(.clientConnected(Self.client, uid: 1000, isAdmin: false, namespace: 1), "start")
        handle(.timePassed, "start")
        handleAll { _ in "start" }
        handle(.diskReported(DiskReport(state: .on)), "start")
        handle(.originalsKnown(hashes: [], isComplete: true), "start")
        figures = [:]
        for _ in 0..<Self.inFlight { request() }
        handleAll {
            switch $0 {
            case .messageReceived(_, .get): "request"
            case .fetchFinished: "body"
            case .identified: "pixels"
            case .savesFinished: "saved"
            default: "others"
            }
        }
    }

    private mutating func handleAll(_ name: (Event) -> String) {
        while !events.isEmpty {
            // Taken out, because the core need not copy an event that nobody else has.
            var batch = Array(exchange(&events, with: []).reversed())
            while let event = batch.popLast() {
                let name = name(event)
                handle(event, name)
            }
        }
    }

    private mutating func request() {
        if let request = requests.popFirst() { events.append(.messageReceived(Self.client, .get(request))) }
    }

    private mutating func handle(_ event: Event, _ name: String) {
        now = now.adding(microseconds: 20)
        unixMs = 1_700_000_000_000 + Int(now.nanoseconds / 1_000_000)
        let begun = DispatchTime.now().uptimeNanoseconds
        let actions = state.handle(event, at: now, unixMs: unixMs)
        figures[name, default: (0, 0)].nanoseconds += Int(DispatchTime.now().uptimeNanoseconds - begun)
        figures[name, default: (0, 0)].count += 1
        for action in actions { answer(action) }
    }

    private mutating func answer(_ action: Action) {
        switch action {
        case .startWorker(_, let worker):
            events.append(.workerStarted(worker, pid: 1))
            events.append(.workerReady(worker, SandboxReport(seccomp: true, landlock: 7), build: "1"))
        case .retireWorker(let worker): events.append(.workerExited(worker, .ended(.status(0))))
        case .startFetch(let worker, let job):
            var response = ResponseRecord(status: 200, requestedAt: unixMs, receivedAt: unixMs)
            (response.cacheControl, response.etag) = ("max-age=3600", "\"\(job.id)\"")
            var result = FetchResult(bytes: 8600, response: response, remoteAddress: "192.0.2.1")
            result.beginning = FetchBeginning(validator: response.etag, total: 8600, isMultiplexed: false)
            events.append(.fetchFinished(worker, JobID(number: job.id), result))
        case .identify(let worker, let job, _, let early, _):
            guard let early, let size = PixelGeometry(width: 160, height: 160),
                let plan = early.job.transform.plan(for: size)
            else { return }
            let number = String(job.number, radix: 16)
            var result = DecodeResult(bytes: plan.result.bytes(in: early.job.transform.pixelFormat))
            result.placeholder = Placeholder(averageColor: "#102030", thumbHash: "AAECAwQF")
            let header = ImageHeader(format: .jpeg, geometry: size)
            events.append(
                .identified(
                    worker, job, digest: number + String(repeating: "0", count: 64 - number.count),
                    early: EarlyResult(DecodePlan(header: header, result: plan.result, workingBytes: 0), result)))
        case .saveOriginal(let worker, let job, _, _), .saveRaster(let worker, let job, _, _):
            events.append(.savesFinished(worker, [job], isSaved: true))
        case .reply(_, .image(_, let image), _):
            replies += 1
            request()
            if let buffer = image.buffer { events.append(.messageReceived(Self.client, .release(buffers: [buffer]))) }
        default: break
        }
    }
}
