import Foundation
import IPCProtocol
import Testing

/// The committed samples of the wire format, one file for a message: the JSON text of its frame and a line feed.
///
/// They are the contract in bytes. A change that alters one is a change of the protocol; with
/// `IMGBROKER_UPDATE_GOLDEN=1` in the environment the tests write the files anew, for a look at the difference.
enum Golden {
    static let repository = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        .deletingLastPathComponent().deletingLastPathComponent()
    static let directory = repository.appending(path: "Tests/IPCProtocolTests/Golden")

    private static let isUpdating = ProcessInfo.processInfo.environment["IMGBROKER_UPDATE_GOLDEN"] == "1"

    /// Checks that `frame` is what the file `name` holds, and returns the file's text to be decoded.
    static func text(_ name: String, of frame: [UInt8]) throws -> ArraySlice<UInt8> {
        let file = directory.appending(path: name + ".json")
        let text = frame.dropFirst(Frame.headerLength)
        if isUpdating { try Data(text + [0x0A]).write(to: file) }
        let golden = [UInt8](try Data(contentsOf: file))
        #expect(golden.last == 0x0A)
        #expect(String(decoding: text, as: UTF8.self) == String(decoding: golden.dropLast(), as: UTF8.self))
        #expect(JSONValue(foundation: golden) != nil)
        return golden.dropLast()
    }

    /// The names of all files.
    static func names() throws -> [String] {
        try FileManager.default.contentsOfDirectory(atPath: directory.path).map { String($0.dropLast(".json".count)) }
    }
}
