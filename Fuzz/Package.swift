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

let package = Package(
    name: "imgbroker-fuzz",
    targets: [
        .systemLibrary(name: "CCurl", path: "Product/SystemModules/CCurl", pkgConfig: "libcurl"),
        .systemLibrary(name: "CPNG", path: "Product/SystemModules/CPNG", pkgConfig: "libpng"),
        .systemLibrary(name: "CJPEG", path: "Product/SystemModules/CJPEG", pkgConfig: "libjpeg"),
        .systemLibrary(name: "CWebP", path: "Product/SystemModules/CWebP", pkgConfig: "libwebpmux"),
        .systemLibrary(name: "CGIF", path: "Product/SystemModules/CGIF"),
        .systemLibrary(name: "CNettle", path: "Product/SystemModules/CNettle", pkgConfig: "nettle"),
        .systemLibrary(name: "CSQLite", path: "Product/SystemModules/CSQLite", pkgConfig: "sqlite3"),
        .systemLibrary(name: "CSeccomp", path: "Product/SystemModules/CSeccomp", pkgConfig: "libseccomp"),
        .target(name: "CLinux", path: "Product/CLinux"),
        .systemLibrary(name: "CLCMS", path: "Product/SystemModules/CLCMS", pkgConfig: "lcms2"),
        .systemLibrary(name: "CAVIF", path: "Product/SystemModules/CAVIF"),
        .systemLibrary(name: "CHEIF", path: "Product/SystemModules/CHEIF"),
        .systemLibrary(name: "CJP2", path: "Product/SystemModules/CJP2", pkgConfig: "libopenjp2"),
        .systemLibrary(name: "CJXL", path: "Product/SystemModules/CJXL"),
        .systemLibrary(name: "CRSVG", path: "Product/SystemModules/CRSVG", pkgConfig: "librsvg-2.0"),
        .systemLibrary(name: "CTIFF", path: "Product/SystemModules/CTIFF"),
        .systemLibrary(name: "CZlib", path: "Product/SystemModules/CZlib", pkgConfig: "zlib"),
        .target(
            name: "CImageCodecs", dependencies: ["CPNG", "CJPEG", "CWebP", "CGIF", "CLCMS", "CZlib"],
            path: "Product/CImageCodecs", linkerSettings: [.linkedLibrary("gif")]),
        .target(
            name: "CAVIFDecoder", dependencies: ["CAVIF", "CImageCodecs"], path: "Product/CAVIFDecoder",
            linkerSettings: [.linkedLibrary("avif")]),
        .target(
            name: "CHEIFDecoder", dependencies: ["CHEIF", "CImageCodecs"], path: "Product/CHEIFDecoder",
            linkerSettings: [.linkedLibrary("heif"), .linkedLibrary("de265")]),
        .target(
            name: "CJP2Decoder", dependencies: ["CJP2", "CImageCodecs"], path: "Product/CJP2Decoder",
            linkerSettings: [.linkedLibrary("openjp2")]),
        .target(
            name: "CJXLDecoder", dependencies: ["CJXL", "CImageCodecs"], path: "Product/CJXLDecoder",
            linkerSettings: [.linkedLibrary("jxl")]),
        .target(
            name: "CSVGDecoder", dependencies: ["CRSVG", "CImageCodecs"], path: "Product/CSVGDecoder",
            linkerSettings: [.linkedLibrary("rsvg-2")]),
        .target(
            name: "CTIFFDecoder", dependencies: ["CTIFF", "CImageCodecs"], path: "Product/CTIFFDecoder",
            linkerSettings: [.linkedLibrary("tiff")]),
        .target(name: "CTransfer", dependencies: ["CCurl"], path: "Product/CTransfer"),
        .systemLibrary(name: "CMemcached", path: "Product/SystemModules/CMemcached"),
        .target(
            name: "CTier", dependencies: ["CMemcached"], path: "Product/CTier",
            linkerSettings: [.linkedLibrary("memcached")]),
        .target(name: "CSandbox", dependencies: ["CSeccomp"], path: "Product/CSandbox"),
        .target(name: "SystemValues", path: "Product/SystemValues", swiftSettings: swift),
        .target(name: "Digests", dependencies: ["CNettle"], path: "Product/Digests", swiftSettings: swift),
        .target(name: "DiskFiles", dependencies: ["Digests"], path: "Product/DiskFiles", swiftSettings: swift),
        .target(name: "JSONCoding", path: "Product/JSONCoding", swiftSettings: swift),
        .target(
            name: "HTTPValues", dependencies: ["JSONCoding"], path: "Product/HTTPValues", swiftSettings: swift),
        .target(
            name: "IPCProtocol", dependencies: ["HTTPValues", "JSONCoding"], path: "Product/IPCProtocol",
            swiftSettings: swift, linkerSettings: [.linkedLibrary("m")]),
        .target(
            name: "DiskRecords", dependencies: ["HTTPValues", "IPCProtocol", "JSONCoding"],
            path: "Product/DiskRecords", swiftSettings: swift),
        .target(
            name: "WorkerProtocol", dependencies: ["DiskRecords", "HTTPValues", "IPCProtocol", "JSONCoding"],
            path: "Product/WorkerProtocol", swiftSettings: swift),
        .target(
            name: "HTTPCaching", dependencies: ["HTTPValues", "IPCProtocol"], path: "Product/HTTPCaching",
            swiftSettings: swift),
        .target(
            name: "LinuxSystem", dependencies: ["CLinux", "SystemValues"], path: "Product/LinuxSystem",
            swiftSettings: swift),
        .target(
            name: "SharedCache", dependencies: ["CLinux", "LinuxSystem", "SystemValues"],
            path: "Product/SharedCache", swiftSettings: swift),
        .target(
            name: "Sandbox", dependencies: ["CSandbox", "WorkerProtocol"], path: "Product/Sandbox",
            swiftSettings: swift),
        .target(
            name: "IPCTransport", dependencies: ["IPCProtocol", "LinuxSystem", "WorkerProtocol"],
            path: "Product/IPCTransport", swiftSettings: swift),
        .target(
            name: "WorkerRuntime",
            dependencies: ["IPCProtocol", "IPCTransport", "LinuxSystem", "Sandbox", "WorkerProtocol"],
            path: "Product/WorkerRuntime", swiftSettings: swift),
        // Programs, without what makes them programs.
        .target(
            name: "imgfetch",
            dependencies: [
                "CTransfer", "Digests", "HTTPCaching", "HTTPValues", "IPCProtocol", "IPCTransport", "LinuxSystem",
                "Sandbox", "SharedCache", "SystemValues", "WorkerProtocol", "WorkerRuntime",
            ], path: "Product/imgfetch", exclude: ["main.swift"], swiftSettings: swift),
        .target(
            name: "ImageDecoding",
            dependencies: [
                "CImageCodecs", "Digests", "IPCProtocol", "IPCTransport", "JSONCoding", "LinuxSystem", "Sandbox",
                "SharedCache", "SystemValues", "WorkerProtocol", "WorkerRuntime",
            ],
            path: "Product/ImageDecoding", swiftSettings: swift),
        .target(
            name: "imgworker", dependencies: ["CImageCodecs", "IPCProtocol", "ImageDecoding", "WorkerProtocol"],
            path: "Product/imgworker", exclude: ["main.swift"], swiftSettings: swift),
        .target(
            name: "imgworker-avif",
            dependencies: ["CAVIFDecoder", "CImageCodecs", "IPCProtocol", "ImageDecoding", "WorkerProtocol"],
            path: "Product/imgworker-avif", exclude: ["main.swift"], swiftSettings: swift),
        .target(
            name: "imgworker-heif",
            dependencies: ["CHEIFDecoder", "CImageCodecs", "IPCProtocol", "ImageDecoding", "WorkerProtocol"],
            path: "Product/imgworker-heif", exclude: ["main.swift"], swiftSettings: swift),
        .target(
            name: "imgworker-jp2",
            dependencies: ["CJP2Decoder", "CImageCodecs", "IPCProtocol", "ImageDecoding", "WorkerProtocol"],
            path: "Product/imgworker-jp2", exclude: ["main.swift"], swiftSettings: swift),
        .target(
            name: "imgworker-jxl",
            dependencies: ["CJXLDecoder", "CImageCodecs", "IPCProtocol", "ImageDecoding", "WorkerProtocol"],
            path: "Product/imgworker-jxl", exclude: ["main.swift"], swiftSettings: swift),
        .target(
            name: "imgworker-svg",
            dependencies: ["CSVGDecoder", "CImageCodecs", "IPCProtocol", "ImageDecoding", "WorkerProtocol"],
            path: "Product/imgworker-svg", exclude: ["main.swift"], swiftSettings: swift),
        .target(
            name: "imgworker-tiff",
            dependencies: ["CTIFFDecoder", "CImageCodecs", "IPCProtocol", "ImageDecoding", "WorkerProtocol"],
            path: "Product/imgworker-tiff", exclude: ["main.swift"], swiftSettings: swift),
        .target(
            name: "imgworker-bmp", dependencies: ["CImageCodecs", "IPCProtocol", "ImageDecoding", "WorkerProtocol"],
            path: "Product/imgworker-bmp", exclude: ["main.swift"], swiftSettings: swift),
        .target(
            name: "imgcache",
            dependencies: [
                "CSQLite", "Digests", "DiskFiles", "DiskRecords", "HTTPValues", "IPCProtocol", "IPCTransport",
                "JSONCoding", "LinuxSystem", "Sandbox", "SharedCache", "SystemValues", "WorkerProtocol",
                "WorkerRuntime",
            ],
            path: "Product/imgcache", exclude: ["main.swift"], swiftSettings: swift),
        .target(
            name: "imgtier",
            dependencies: [
                "CTier", "Digests", "DiskRecords", "HTTPValues", "IPCProtocol", "IPCTransport", "JSONCoding",
                "LinuxSystem", "Sandbox", "SharedCache", "SystemValues", "WorkerProtocol", "WorkerRuntime",
            ],
            path: "Product/imgtier", exclude: ["main.swift"], swiftSettings: swift),
        .target(
            name: "FuzzTargets",
            dependencies: [
                "Digests", "DiskFiles", "DiskRecords", "HTTPCaching", "HTTPValues", "IPCProtocol", "JSONCoding",
                "LinuxSystem",
                "SharedCache", "WorkerProtocol", "imgcache", "imgfetch", "imgtier", "imgworker", "imgworker-avif",
                "imgworker-bmp", "imgworker-heif", "imgworker-jp2", "imgworker-jxl", "imgworker-svg", "imgworker-tiff",
                "ImageDecoding",
            ], path: "Targets", swiftSettings: swift),
        // In C, because then libFuzzer's `main` is the only one.
        .executableTarget(name: "imgfuzz", dependencies: ["FuzzTargets"], path: "Driver"),
    ],
    cLanguageStandard: .gnu11
)
