// swift-tools-version: 6.2
import PackageDescription

// Built by scripts/fuzz.sh with libFuzzer and the address sanitizer, which all modules must be built with. They are
// found through the link `Product`: a package depends on products of another one, and these modules are none.

let swift: [SwiftSetting] = [
    .swiftLanguageMode(.v6), .strictMemorySafety(), .enableUpcomingFeature("ExistentialAny"),
    .enableUpcomingFeature("InternalImportsByDefault"), .enableUpcomingFeature("MemberImportVisibility"),
    // The targets look inside of modules, as tests do.
    .unsafeFlags(["-enable-testing"]),
]

/// The headers of a library of the system.
func system(_ name: String, _ pkgConfig: String? = nil) -> Target {
    .systemLibrary(name: name, path: "Product/SystemModules/\(name)", pkgConfig: pkgConfig)
}

/// A target of C.
func shim(_ name: String, _ dependencies: [Target.Dependency] = [], libraries: [String] = []) -> Target {
    .target(
        name: name, dependencies: dependencies, path: "Product/\(name)",
        linkerSettings: libraries.map { .linkedLibrary($0) })
}

/// A target of Swift; of a program, what makes it one is left out.
func module(
    _ name: String, _ dependencies: [Target.Dependency] = [], isProgram: Bool = false, libraries: [String] = []
) -> Target {
    .target(
        name: name, dependencies: dependencies, path: "Product/\(name)", exclude: isProgram ? ["main.swift"] : [],
        swiftSettings: swift, linkerSettings: libraries.map { .linkedLibrary($0) })
}

/// The decode worker of a family of codecs, and its target of C.
func worker(_ family: String, _ shimName: String, _ system: Target.Dependency, libraries: [String]) -> [Target] {
    [
        shim(shimName, [system, "CImageCodecs"], libraries: libraries),
        module(
            "imgworker-" + family,
            [.init(stringLiteral: shimName), "CImageCodecs", "IPCProtocol", "ImageDecoding", "WorkerProtocol"],
            isProgram: true),
    ]
}

let workers =
    worker("avif", "CAVIFDecoder", "CAVIF", libraries: ["avif"])
    + worker("heif", "CHEIFDecoder", "CHEIF", libraries: ["heif", "de265"])
    + worker("jp2", "CJP2Decoder", "CJP2", libraries: ["openjp2"])
    + worker("jxl", "CJXLDecoder", "CJXL", libraries: ["jxl"])
    + worker("svg", "CSVGDecoder", "CRSVG", libraries: ["rsvg-2"])
    + worker("tiff", "CTIFFDecoder", "CTIFF", libraries: ["tiff"])

let package = Package(
    name: "imgbroker-fuzz",
    targets: workers + [
        system("CCurl", "libcurl"), system("CPNG", "libpng"), system("CJPEG", "libjpeg"), system("CWebP", "libwebpmux"),
        system("CGIF"), system("CNettle", "nettle"), system("CSQLite", "sqlite3"), system("CSeccomp", "libseccomp"),
        system("CLCMS", "lcms2"), system("CAVIF"), system("CHEIF"), system("CJP2", "libopenjp2"), system("CJXL"),
        system("CRSVG", "librsvg-2.0"), system("CTIFF"), system("CZlib", "zlib"), system("CMemcached"),
        shim("CLinux"),
        shim("CImageCodecs", ["CPNG", "CJPEG", "CWebP", "CGIF", "CLCMS", "CZlib"], libraries: ["gif"]),
        shim("CTransfer", ["CCurl"]),
        shim("CSandbox"),
        module("SystemValues"),
        module("Digests", ["CNettle"]),
        module("DiskFiles", ["Digests"]),
        module("JSONCoding"),
        module("HTTPValues", ["JSONCoding"]),
        module("IPCProtocol", ["HTTPValues", "JSONCoding"], libraries: ["m"]),
        module("DiskRecords", ["HTTPValues", "IPCProtocol", "JSONCoding"]),
        module("WorkerProtocol", ["DiskRecords", "HTTPValues", "IPCProtocol", "JSONCoding"]),
        module("HTTPCaching", ["HTTPValues", "IPCProtocol"]),
        module("LinuxSystem", ["CLinux", "SystemValues"]),
        module("SharedCache", ["CLinux", "LinuxSystem", "SystemValues"]),
        module("Sandbox", ["CSandbox", "CSeccomp", "LinuxSystem", "WorkerProtocol"]),
        module("IPCTransport", ["IPCProtocol", "LinuxSystem", "WorkerProtocol"]),
        module("WorkerRuntime", ["IPCProtocol", "IPCTransport", "LinuxSystem", "Sandbox", "WorkerProtocol"]),
        module(
            "imgfetch",
            [
                "CTransfer", "Digests", "HTTPCaching", "HTTPValues", "IPCProtocol", "IPCTransport", "LinuxSystem",
                "Sandbox", "SharedCache", "SystemValues", "WorkerProtocol", "WorkerRuntime",
            ], isProgram: true),
        module(
            "ImageDecoding",
            [
                "CImageCodecs", "Digests", "IPCProtocol", "IPCTransport", "JSONCoding", "LinuxSystem", "Sandbox",
                "SharedCache", "SystemValues", "WorkerProtocol", "WorkerRuntime",
            ]),
        module("imgworker", ["CImageCodecs", "IPCProtocol", "ImageDecoding", "WorkerProtocol"], isProgram: true),
        module("imgworker-bmp", ["CImageCodecs", "IPCProtocol", "ImageDecoding", "WorkerProtocol"], isProgram: true),
        module(
            "imgcache",
            [
                "CSQLite", "Digests", "DiskFiles", "DiskRecords", "HTTPValues", "IPCProtocol", "IPCTransport",
                "JSONCoding", "LinuxSystem", "Sandbox", "SharedCache", "SystemValues", "WorkerProtocol",
                "WorkerRuntime",
            ], isProgram: true),
        module(
            "imgtier",
            [
                "CMemcached", "Digests", "DiskRecords", "HTTPValues", "IPCProtocol", "IPCTransport", "JSONCoding",
                "LinuxSystem", "Sandbox", "SharedCache", "SystemValues", "WorkerProtocol", "WorkerRuntime",
            ], isProgram: true),
        .target(
            name: "FuzzTargets",
            dependencies: [
                "CImageCodecs", "Digests", "DiskFiles", "DiskRecords", "HTTPCaching", "HTTPValues", "IPCProtocol",
                "ImageDecoding", "JSONCoding", "LinuxSystem", "SharedCache", "WorkerProtocol", "imgcache", "imgfetch",
                "imgtier", "imgworker", "imgworker-avif", "imgworker-bmp", "imgworker-heif", "imgworker-jp2",
                "imgworker-jxl", "imgworker-svg", "imgworker-tiff",
            ], path: "Targets", swiftSettings: swift),
        // In C, because then libFuzzer's `main` is the only one.
        .executableTarget(name: "imgfuzz", dependencies: ["FuzzTargets"], path: "Driver"),
    ],
    cLanguageStandard: .gnu11
)
