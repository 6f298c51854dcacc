import DiskRecords
import IPCProtocol
import SystemValues
import WorkerProtocol

/// What decoders are kept from for a while: images that killed two of them, variants that took too long, and the images
/// of users and sources with many deaths.
struct DecodeRefusals {
    private var quarantine = Quarantine()
    private(set) var isQuarantineUnsaved = false
    /// Variants that took too long, and until when they are refused; each refusal is a use.
    private var slowVariants = UseTable<VariantKey, Instant>()
    private static let maximumSlowVariants = 1024
    /// Of each family that has lost workers.
    private var ledgers: [CodecFamily: CrashLedger] = [:]
    private var builds: [CodecFamily: String] = [:]

    /// The reason not to make a variant now; nil when it may be made. Without `responsible`, no pause counts.
    mutating func refusal(
        of variant: VariantKey, _ family: CodecFamily, from responsible: Responsible?, decodeSeconds: Int,
        areDecodersBroken: Bool, at now: Moment
    ) -> WireError? {
        if let until = slowVariants[variant], until > now.instant {
            slowVariants.use(variant, until)
            let message = "This form of the image takes more than \(decodeSeconds) s of a processor."
            return WireError(.decoderCrashed, message)
        }
        let digest = variant.content.digest
        if quarantine.refuses(digest, build: build(of: family), unixMs: now.unixMs) {
            quarantine.noteUse(of: digest)
            return WireError(.decoderCrashed, "Decoders have died on this image; it is refused for a while.")
        }
        if let responsible, let pause = ledgers[family]?.pause(of: responsible, at: now.instant) {
            let message = "Decoders have died on \(pause.scope.texts.images); no more of them are decoded for a while."
            return WireError(.decoderUnavailable, message, retryAfterMs: pause.milliseconds)
        }
        return areDecodersBroken ? Self.brokenDecoders : nil
    }

    /// The error of images that no decoder takes.
    static let brokenDecoders = WireError(
        .decoderUnavailable, "Decoders do not start; no new image is decoded for a while.", retryAfterMs: 10_000)

    // MARK: Deaths

    /// Charges the death of a worker. Returns the pause that begins.
    mutating func charge(
        _ responsible: Responsible, _ family: CodecFamily = .plain, at now: Instant
    ) -> CrashLedger.Pause? {
        ledgers[family, default: CrashLedger()].note(responsible, at: now)
    }

    func isPaused(_ responsible: Responsible, _ family: CodecFamily = .plain, at now: Instant) -> Bool {
        ledgers[family]?.pause(of: responsible, at: now) != nil
    }

    /// Refuses a variant that took too long, for as long as a quarantine lasts at first.
    mutating func noteSlow(_ variant: VariantKey, at now: Instant) {
        slowVariants.use(variant, now.adding(milliseconds: Quarantine.firstMilliseconds))
        if slowVariants.count > Self.maximumSlowVariants { slowVariants.popOldest() }
    }

    // MARK: Quarantine

    private func build(of family: CodecFamily) -> String { builds[family] ?? "" }

    /// Notes the build of a family's decoders: another build may have fixed what killed this one.
    mutating func becameReady(build: String, of family: CodecFamily) { builds[family] = build }

    /// Quarantines an image that decoders have died of.
    mutating func noteDeadly(_ content: ContentKey, _ family: CodecFamily, unixMs: Int) {
        quarantine.add(content.digest, build: build(of: family), unixMs: unixMs)
        isQuarantineUnsaved = true
    }

    /// The beginnings of the digests that the plain family refuses; nil when they are too many.
    mutating func refusedDigests(unixMs: Int) -> [String]? {
        quarantine.refusedDigests(build: build(of: .plain), unixMs: unixMs)
    }

    mutating func restore(_ records: [QuarantineRecord], unixMs: Int) { quarantine.restore(records, unixMs: unixMs) }

    /// The quarantine for the disk tier, which saves it if `isOn`.
    mutating func saveQuarantine(isOn: Bool, unixMs: Int) -> [QuarantineRecord] {
        isQuarantineUnsaved = !isOn
        return quarantine.records(unixMs: unixMs)
    }
}
