import Glibc
import IPCProtocol
import LocalOrigin
import TestSupport
import Testing

/// A user whose images end every decoder of their family: other users' images are decoded all the same.
@Suite(
    .blocking, .enabled(if: getuid() == 0, "only root can connect as several users"),
    .timeLimit(.minutes(10)))
struct CrashingUserTests {
    private static let attacker: UInt32 = 20_031
    private static let victim: UInt32 = 20_032

    /// The documents have one origin. The attacker's requests are all in flight while the victim loads one image after the other.
    @Test func emptyTiles() throws {
        let setting = try Setting { request in
            let number = request.number
            let svg = request.path == "/bad" ? CrashingImage.svg(number) : CrashingImage.harmlessSVG(number)
            return .ok(svg, contentType: "image/svg+xml")
        }
        try setting.idle()
        let (attacker, victim) = (try setting.client(as: Self.attacker), try setting.client(as: Self.victim))
        let bad = try (0..<40).map { try attacker.get(setting.url("/bad?\($0)")) }
        for number in 0..<30 {
            #expect(try victim.load(setting.url("/good?\(number)")).image().width == 16)
        }
        let codes = try bad.map { try attacker.answer(to: $0).error?.code }
        // A later version of the library decodes them.
        if codes.allSatisfy({ $0 == nil }) { return }
        #expect(codes.contains(.decoderCrashed) && codes.contains(.decoderUnavailable))
        #expect(codes.allSatisfy { [.decoderCrashed, .decoderUnavailable].contains($0) })
        // The attacker's images of other formats, and the victim's SVGs of the origin, are decoded.
        #expect(try attacker.store("http://a.test/", tile(1).png).isOK)
        #expect(try victim.load(setting.url("/good?last")).image().width == 16)
        #expect(try setting.broker.stats().workerDeaths.keys.elementsEqual([.signal]))
    }

    @Test func emptyTilesInBytes() throws {
        let setting = try Setting { .ok(CrashingImage.harmlessSVG($0.number), contentType: "image/svg+xml") }
        try setting.idle()
        let (attacker, victim) = (try setting.client(as: Self.attacker), try setting.client(as: Self.victim))
        var codes: [ErrorCode?] = []
        for number in 0..<12 {
            codes.append(
                try attacker.store("http://a.test/\(number)", CrashingImage.svg(number), contentType: "image/svg+xml")
                    .error?
                    .code)
            let stored = try victim.store(
                "http://a.test/\(number)", CrashingImage.harmlessSVG(number), contentType: "image/svg+xml")
            #expect(stored.isOK)
        }
        if codes.allSatisfy({ $0 == nil }) { return }
        #expect(codes.contains(.decoderCrashed) && codes.contains(.decoderUnavailable))
    }
}
