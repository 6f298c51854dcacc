import Foundation
import LinuxSystem
import Testing

/// Each program links the libraries of its role and no others.
@Suite(.blocking, .timeLimit(.minutes(10))) struct LinkageTests {
    private static let codecs = ["libjpeg", "libpng", "libwebp", "libgif"]
    private static let families = ["libavif", "libheif", "libjxl", "libopenjp2", "librsvg", "libtiff"]
    private static let network = ["libcurl", "libssl", "libcrypto", "libnghttp2"]

    @Test(arguments: [
        ("imgbroker", ["libseccomp"], codecs + families + network + ["libsqlite3", "libmicrohttpd"]),
        ("imgexporter", ["libmicrohttpd"], codecs + ["libcurl", "libseccomp", "libsqlite3"]),
        ("imghttp", ["libmicrohttpd", "libseccomp"], codecs + families + ["libcurl", "libsqlite3"]),
        ("imgfetch", ["libcurl"], codecs + ["libsqlite3"]),
        ("imgworker", codecs, families + network + ["libsqlite3"]), ("imgcache", ["libsqlite3"], codecs + network),
        (
            "imgtier", ["libmemcached"],
            codecs + families + ["libcurl", "libnghttp2", "libsqlite3", "libmicrohttpd"]
        ),
    ])
    func libraries(program: String, needed: [String], forbidden: [String]) throws {
        let own = try #require(CurrentProcess.executablePath)
        let path = own[...(try #require(own.lastIndex(of: "/")))] + program
        let (process, pipe) = (Process(), Pipe())
        process.executableURL = URL(filePath: "/usr/bin/ldd")
        process.arguments = [String(path)]
        process.standardOutput = pipe
        try process.run()
        let data = try pipe.fileHandleForReading.readToEnd() ?? Data()
        process.waitUntilExit()
        #expect(process.terminationStatus == 0)

        let linked = String(decoding: data, as: UTF8.self)
        #expect(linked.contains("libc.so"))
        for library in needed { #expect(linked.contains(library), "\(program) lacks \(library)") }
        for library in forbidden + ["libFoundation", "libxml2"] {
            #expect(!linked.contains(library), "\(program) links \(library)")
        }
    }
}
