package import Foundation

/// The committed samples of the wire format, one file for each message: the JSON text and a line feed.
///
/// They define the protocol byte for byte. A change that alters one is a change of the protocol; with
/// `IMGBROKER_UPDATE_GOLDEN=1` in the environment the tests rewrite the files, so that the difference can be reviewed.
package struct Golden {
    package static let repository = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        .deletingLastPathComponent()

    package struct Mismatch: Error, CustomStringConvertible {
        package let description: String
    }

    private static let isUpdating = ProcessInfo.processInfo.environment["IMGBROKER_UPDATE_GOLDEN"] == "1"

    package let directory: URL

    /// The samples of a test target, in its folder `Golden`.
    package init(of target: String) {
        directory = Self.repository.appending(path: "Tests/\(target)/Golden")
    }

    /// Checks that `text` is the content of the file `name` and that it is JSON. Returns the file's text, to be
    /// decoded.
    ///
    /// - Throws: `Mismatch`, or an error of reading the file.
    package func text(_ name: String, of text: some Collection<UInt8>) throws -> ArraySlice<UInt8> {
        let file = directory.appending(path: name + ".json")
        if Self.isUpdating { try Data(Array(text) + [0x0A]).write(to: file) }
        let golden = [UInt8](try Data(contentsOf: file))
        guard golden.last == 0x0A, golden.dropLast().elementsEqual(text), JSONValue(foundation: golden) != nil else {
            let texts = [Array(golden), Array(text)].map { String(decoding: $0, as: UTF8.self) }
            throw Mismatch(description: "\(name): the sample is\n\(texts[0])\nbut this was written:\n\(texts[1])")
        }
        return golden.dropLast()
    }

    package func names() throws -> [String] {
        try FileManager.default.contentsOfDirectory(atPath: directory.path).map { String($0.dropLast(".json".count)) }
    }
}
