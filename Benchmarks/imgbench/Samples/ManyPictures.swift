import BrokerHarness
import Foundation
import HTTPValues
import IPCProtocol
import ImageBrokerClient
import LocalOrigin

/// An origin with any number of small images, each with other bytes.
struct ManyPictures {
    private static let side = 64
    /// The size of the pixels of each image in bytes.
    static let bytes = side * side * 4
    private static let picture = PNGFile.checkers(width: side, height: side)
    /// The size of each original in bytes, without the path after it.
    static let originalBytes = picture.count
    private let origin: LocalOrigin

    init() throws {
        // Decoders ignore the bytes after the end of the image.
        origin = try LocalOrigin { .ok(Self.picture + Array($0.path.utf8)) }
    }

    func url(_ number: Int) -> String { origin.url("/\(number)") }

    func stop() { origin.stop() }
}

extension BrokerProcess {
    /// Makes the broker load `count` images, which are two objects each: original and pixels.
    func load(_ count: Int, from origin: ManyPictures) throws {
        var options = GetOptions()
        options.delivery = .none
        try client().load((0..<count).map { origin.url($0 + 1) }, options)
    }
}
