import IPCProtocol
import SystemValues
import WorkerProtocol

/// The decoding of what is there of a body that is still on its way. It belongs to no client, and waits for nothing:
/// neither for a worker nor for room.
struct PartialFlight {
    /// The download whose bytes are decoded.
    let fetch: JobID
    /// The result's size and form.
    let transform: Transform
    /// Whose doing the picture is: what it costs in decoders counts for these origins.
    let origins: [String]
    let worker: WorkerID
    let startedAt: Instant
    /// When the worker has taken too long.
    let deadline: Instant
    var plan: DecodePlan?
    /// Bytes reserved for the result.
    var reserved = 0
}

/// How much was shown of a body that is on its way.
struct ShownPart {
    /// The decoding that is under way, of which there is one at most.
    var job: JobID?
    /// How many bytes the last one had.
    var bytes = 0
    /// How far the picture had come that was shown last.
    var stage = 0
    /// When the next decoding may begin.
    var notBefore: Instant?
    /// Whether there is no use in another one: the picture comes in no parts, or has cost a decoder.
    var isOver = false

    /// Whether so many bytes are worth another look.
    func isWorthALook(_ received: Int) -> Bool {
        received - bytes >= max(Self.fewestBytes, bytes / 20)
    }

    /// Forgets what belongs to bytes that are there no more.
    mutating func startOver() {
        job = nil
        bytes = 0
        stage = 0
    }

    private static let fewestBytes = 1024
}

extension Waiter {
    /// What is to be made of a part of its picture; nil when it does not want to see any.
    func partialTransform(scaleDownLimit: Int) -> Transform? {
        let options = request.options
        guard purpose == .get, options.progressive, options.representation == .pixels, options.delivery != .none,
            [.one(0), .all].contains(options.variant.frames)
        else { return nil }
        var transform = options.variant.transform(scaleDownLimit: scaleDownLimit)
        // What comes in parts is a still.
        transform.frames = .one(0)
        return transform
    }
}
