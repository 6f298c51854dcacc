import Foundation
import LinuxSystem
import TestSupport
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
        ("imgworker", codecs, families + network + ["libgnutls", "libsqlite3"]),
        ("imgcache", ["libsqlite3"], codecs + network),
        (
            "imgtier", ["libmemcached"],
            codecs + families + ["libcurl", "libnghttp2", "libsqlite3", "libmicrohttpd"]
        ),
    ])
    func libraries(program: String, needed: [String], forbidden: [String]) throws {
        let result = try run("/usr/bin/ldd", [BuiltProducts.folder + "/" + program])
        let linked = result.output
        #expect(result.exit == .status(0) && linked.contains("libc.so"), "\(result)")
        for library in needed { #expect(linked.contains(library), "\(program) lacks \(library)") }
        for library in forbidden + ["libFoundation", "libswiftFoundation", "libxml2"] {
            #expect(!linked.contains(library), "\(program) links \(library)")
        }
    }
}
