// swift-tools-version: 6.2
import PackageDescription

/// Warnings stop the build where the project's own checks run (`make test`), not on a user's newer compiler.
let strictBuild = Context.environment["IMGBROKER_STRICT"] == "1"

/// A family of codecs with a decode worker of its own: its sources are in Sources/imgworker-NAME, and the C functions
/// that call its library in a target of their own.
struct CodecFamily {
    let name: String
    /// The target with its C functions, and the target of its system libraries; none if the program has all of its
    /// code.
    var shim: String?, module: String?
    var libraries: [String] = []

    var worker: String { "imgworker-" + name }
}
let allFamilies = [
    CodecFamily(name: "avif", shim: "CAVIFDecoder", module: "CAVIF", libraries: ["avif"]),
    // With the C++ library, the linker exports the function of it that memory.c replaces.
    CodecFamily(name: "heif", shim: "CHEIFDecoder", module: "CHEIF", libraries: ["heif", "de265", "stdc++"]),
    CodecFamily(name: "jp2", shim: "CJP2Decoder", module: "CJP2", libraries: ["openjp2"]),
    CodecFamily(name: "jxl", shim: "CJXLDecoder", module: "CJXL", libraries: ["jxl"]),
    CodecFamily(name: "svg", shim: "CSVGDecoder", module: "CRSVG", libraries: ["rsvg-2"]),
    CodecFamily(name: "tiff", shim: "CTIFFDecoder", module: "CTIFF", libraries: ["tiff"]),
    CodecFamily(name: "bmp"),
]

/// Families that are left out: `IMGBROKER_WITHOUT="avif" swift build`. Their libraries are then not looked for, and
/// files of these formats are refused like those of a broker whose workers are not installed.
let without = Set((Context.environment["IMGBROKER_WITHOUT"] ?? "").split(separator: " ").map(String.init))
if let unknown = without.first(where: { name in !allFamilies.contains { $0.name == name } }) {
    fatalError("IMGBROKER_WITHOUT: \(unknown) cannot be left out; these can: \(allFamilies.map(\.name))")
}
let families = allFamilies.filter { !without.contains($0.name) }
/// Tests alone are compiled with it.
let leftOut = without.sorted().map { "WITHOUT_" + $0.uppercased() }

let swift: [SwiftSetting] =
    leftOut.map { .define($0) } + [
        .swiftLanguageMode(.v6),
        .strictMemorySafety(),
        .enableUpcomingFeature("ExistentialAny"),
        .enableUpcomingFeature("InternalImportsByDefault"),
        .enableUpcomingFeature("MemberImportVisibility"),
    ] + (strictBuild ? [.treatAllWarnings(as: .error)] : [])

let c: [CSetting] =
    leftOut.map { .define($0) } + [.enableWarning("all"), .enableWarning("extra")]
    + (strictBuild ? [.treatAllWarnings(as: .error)] : [])

/// Loops over pixels, the core and the coding of messages are optimised also where tests run: they take most of the
/// tests' time.
let optimized: [SwiftSetting] = [
    .unsafeFlags(["-O", "-assert-config", "Debug"], .when(configuration: .debug))
]
/// The same for targets of the client library, of which packages that use it accept no such flags.
let optimizedHere = strictBuild ? optimized : []
let optimizedC: [CSetting] = [.unsafeFlags(["-O2"], .when(configuration: .debug))]

/// What the library of all decode workers needs besides the codecs.
let decodingModules: [Target.Dependency] = [
    "Digests", "IPCProtocol", "IPCTransport", "JSONCoding", "LinuxSystem", "Sandbox", "SharedCache", "SystemValues",
    "WorkerProtocol", "WorkerRuntime",
]

/// The broker contains Swift's runtime: calls into a shared library would cost 5 % of a hit. The workers share one.
let contained: [LinkerSetting] = [.unsafeFlags(["-static-stdlib"], .when(configuration: .release))]

let package = Package(
    name: "imgbroker",
    products: [
        .executable(name: "imgbroker", targets: ["imgbroker"]),
        .executable(name: "imgcache", targets: ["imgcache"]),
        .executable(name: "imgexporter", targets: ["imgexporter"]),
        .executable(name: "imgfetch", targets: ["imgfetch"]),
        .executable(name: "imghttp", targets: ["imghttp"]),
        .executable(name: "imgtier", targets: ["imgtier"]),
        .executable(name: "imgworker", targets: ["imgworker"]),
        // The public API: all other modules are `package`.
        .library(name: "ImageBrokerClient", targets: ["ImageBrokerClient", "IPCProtocol", "HTTPValues"]),
    ],
    targets: [
        // C libraries of the system.
        .systemLibrary(
            name: "CCurl", path: "Sources/SystemModules/CCurl", pkgConfig: "libcurl",
            providers: [.apt(["libcurl4-openssl-dev"])]),
        .systemLibrary(
            name: "CPNG", path: "Sources/SystemModules/CPNG", pkgConfig: "libpng",
            providers: [.apt(["libpng-dev"])]),
        .systemLibrary(
            name: "CJPEG", path: "Sources/SystemModules/CJPEG", pkgConfig: "libjpeg",
            providers: [.apt(["libjpeg62-turbo-dev", "libjpeg-turbo8-dev"])]),
        .systemLibrary(
            name: "CWebP", path: "Sources/SystemModules/CWebP", pkgConfig: "libwebpmux",
            providers: [.apt(["libwebp-dev"])]),
        // What pkg-config says of it has a definition that packages may not make, and that only Windows needs.
        .systemLibrary(
            name: "CAVIF", path: "Sources/SystemModules/CAVIF", providers: [.apt(["libavif-dev"])]),
        .systemLibrary(
            name: "CHEIF", path: "Sources/SystemModules/CHEIF", pkgConfig: "libheif",
            providers: [.apt(["libheif-dev", "libde265-dev"])]),
        .systemLibrary(
            name: "CJP2", path: "Sources/SystemModules/CJP2", pkgConfig: "libopenjp2",
            providers: [.apt(["libopenjp2-7-dev"])]),
        // As with libavif.
        .systemLibrary(
            name: "CJXL", path: "Sources/SystemModules/CJXL", providers: [.apt(["libjxl-dev"])]),
        .systemLibrary(
            name: "CRSVG", path: "Sources/SystemModules/CRSVG", pkgConfig: "librsvg-2.0",
            providers: [.apt(["librsvg2-dev"])]),
        .systemLibrary(
            name: "CTIFF", path: "Sources/SystemModules/CTIFF", pkgConfig: "libtiff-4",
            providers: [.apt(["libtiff-dev"])]),
        // It has no file for pkg-config, so who uses it names it to the linker.
        .systemLibrary(
            name: "CGIF", path: "Sources/SystemModules/CGIF", providers: [.apt(["libgif-dev"])]),
        .systemLibrary(
            name: "CLCMS", path: "Sources/SystemModules/CLCMS", pkgConfig: "lcms2",
            providers: [.apt(["liblcms2-dev"])]),
        .systemLibrary(
            name: "CZlib", path: "Sources/SystemModules/CZlib", pkgConfig: "zlib",
            providers: [.apt(["zlib1g-dev"])]),
        .systemLibrary(
            name: "CNettle", path: "Sources/SystemModules/CNettle", pkgConfig: "nettle",
            providers: [.apt(["nettle-dev"])]),
        .systemLibrary(
            name: "CInih", path: "Sources/SystemModules/CInih", pkgConfig: "inih",
            providers: [.apt(["libinih-dev"])]),
        .systemLibrary(
            name: "CMicroHTTPD", path: "Sources/SystemModules/CMicroHTTPD", pkgConfig: "libmicrohttpd",
            providers: [.apt(["libmicrohttpd-dev"])]),
        // What pkg-config says of it also has libraries for other purposes.
        .systemLibrary(
            name: "CMemcached", path: "Sources/SystemModules/CMemcached", providers: [.apt(["libmemcached-dev"])]),
        .systemLibrary(
            name: "CSQLite", path: "Sources/SystemModules/CSQLite", pkgConfig: "sqlite3",
            providers: [.apt(["libsqlite3-dev"])]),
        .systemLibrary(
            name: "CSeccomp", path: "Sources/SystemModules/CSeccomp", pkgConfig: "libseccomp",
            providers: [.apt(["libseccomp-dev"])]),

        // C shims, each for one purpose.
        .target(name: "CLinux", cSettings: c),
        .target(
            name: "CImageCodecs", dependencies: ["CPNG", "CJPEG", "CWebP", "CGIF", "CLCMS", "CZlib"],
            cSettings: c + optimizedC, linkerSettings: [.linkedLibrary("gif")]),
        .target(name: "CTransfer", dependencies: ["CCurl"], cSettings: c),
        .target(name: "CSandbox", cSettings: c),
        .target(name: "CDashboard", exclude: ["Pages"], cSettings: c),
        .target(name: "CWebServer", dependencies: ["CMicroHTTPD"], cSettings: c),

        // Libraries, from the ground up.
        .target(name: "SystemValues", swiftSettings: swift),
        .target(name: "Digests", dependencies: ["CNettle"], swiftSettings: swift),
        .target(name: "DiskFiles", dependencies: ["Digests"], swiftSettings: swift),
        .target(name: "JSONCoding", swiftSettings: swift + optimizedHere),
        .target(
            name: "HTTPValues", dependencies: ["JSONCoding", "SystemValues"], swiftSettings: swift + optimizedHere),
        .target(
            name: "IPCProtocol", dependencies: ["HTTPValues", "JSONCoding"], swiftSettings: swift + optimizedHere,
            linkerSettings: [.linkedLibrary("m")]),
        .target(
            name: "DiskRecords", dependencies: ["HTTPValues", "IPCProtocol", "JSONCoding"], swiftSettings: swift),
        .target(
            name: "WorkerProtocol", dependencies: ["DiskRecords", "HTTPValues", "IPCProtocol", "JSONCoding"],
            swiftSettings: swift),
        .target(
            name: "HTTPCaching", dependencies: ["HTTPValues", "IPCProtocol"], swiftSettings: swift),
        .target(name: "LinuxSystem", dependencies: ["CLinux", "SystemValues"], swiftSettings: swift),
        .target(
            name: "SharedCache", dependencies: ["CLinux", "LinuxSystem", "SystemValues"], swiftSettings: swift),
        .target(
            name: "Sandbox", dependencies: ["CSandbox", "CSeccomp", "LinuxSystem", "WorkerProtocol"],
            swiftSettings: swift),
        .target(
            name: "IPCTransport", dependencies: ["IPCProtocol", "LinuxSystem", "WorkerProtocol"],
            swiftSettings: swift + optimizedHere),
        .target(
            name: "WorkerRuntime",
            dependencies: ["IPCProtocol", "IPCTransport", "LinuxSystem", "Sandbox", "SystemValues", "WorkerProtocol"],
            swiftSettings: swift),
        .target(
            name: "ImageDecoding", dependencies: ["CImageCodecs"] + decodingModules, swiftSettings: swift + optimized),
        .target(
            name: "ImageBrokerClient",
            dependencies: [
                "HTTPValues", "IPCProtocol", "IPCTransport", "LinuxSystem", "SharedCache", "SystemValues",
            ],
            swiftSettings: swift),

        // Programs that serve HTTP.
        .target(
            name: "WebServing",
            dependencies: ["CWebServer", "HTTPValues", "LinuxSystem", "SharedCache", "SystemValues"],
            swiftSettings: swift),

        // The broker's decisions, without a system module.
        .target(
            name: "BrokerCore",
            dependencies: [
                "Digests", "DiskRecords", "HTTPCaching", "HTTPValues", "IPCProtocol", "JSONCoding", "SystemValues",
                "WorkerProtocol",
            ],
            swiftSettings: swift + optimized),

        // Processes.
        .executableTarget(
            name: "imgbroker",
            dependencies: [
                "BrokerCore", "CInih", "Digests", "DiskRecords", "HTTPCaching", "HTTPValues", "ImageBrokerClient",
                "IPCProtocol",
                "IPCTransport", "JSONCoding", "LinuxSystem", "Sandbox", "SharedCache", "SystemValues", "WorkerProtocol",
            ],
            swiftSettings: swift, linkerSettings: contained),
        .executableTarget(
            name: "imgfetch",
            dependencies: [
                "CTransfer", "HTTPCaching", "HTTPValues", "IPCProtocol", "IPCTransport", "JSONCoding", "LinuxSystem",
                "Sandbox", "SharedCache", "SystemValues", "WorkerProtocol", "WorkerRuntime",
            ],
            swiftSettings: swift),
        .executableTarget(
            name: "imgworker", dependencies: ["CImageCodecs", "IPCProtocol", "ImageDecoding", "WorkerProtocol"],
            swiftSettings: swift + optimized),
        .executableTarget(
            name: "imgcache",
            dependencies: [
                "CSQLite", "Digests", "DiskFiles", "DiskRecords", "HTTPValues", "IPCProtocol", "IPCTransport",
                "JSONCoding", "LinuxSystem", "Sandbox", "SharedCache", "SystemValues", "WorkerProtocol",
                "WorkerRuntime",
            ],
            swiftSettings: swift),

        .executableTarget(
            name: "imgtier",
            dependencies: [
                "CMemcached", "Digests", "DiskRecords", "HTTPValues", "IPCProtocol", "IPCTransport", "JSONCoding",
                "LinuxSystem", "Sandbox", "SharedCache", "SystemValues", "WorkerProtocol", "WorkerRuntime",
            ],
            swiftSettings: swift),

        // A client of the broker that shows its statistics over HTTP.
        .executableTarget(
            name: "imgexporter",
            dependencies: [
                "CDashboard", "CZlib", "HTTPValues", "ImageBrokerClient", "IPCProtocol", "JSONCoding",
                "LinuxSystem",
                "SharedCache", "SystemValues", "WebServing",
            ],
            swiftSettings: swift),
        // A client of the broker that makes images over HTTP, as Imaginary and imgproxy do.
        .executableTarget(
            name: "imghttp",
            dependencies: [
                "Digests", "HTTPValues", "ImageBrokerClient", "IPCProtocol", "JSONCoding", "LinuxSystem", "Sandbox",
                "SharedCache", "SystemValues", "WebServing",
            ],
            swiftSettings: swift),

        // The demonstration, and what it shares with the tests and the benchmarks.
        .target(name: "LocalOrigin", path: "Demo/LocalOrigin", swiftSettings: swift),
        .target(
            name: "BrokerHarness",
            dependencies: [
                "Digests", "DiskFiles", "DiskRecords", "HTTPValues", "ImageBrokerClient", "IPCProtocol", "JSONCoding",
                "LinuxSystem", "SharedCache", "SystemValues",
            ],
            path: "Demo/BrokerHarness", swiftSettings: swift + optimized),
        .executableTarget(
            name: "imgdemo",
            dependencies: [
                "BrokerHarness", "HTTPValues", "ImageBrokerClient", "IPCProtocol", "LinuxSystem", "LocalOrigin",
                "SharedCache",
            ],
            path: "Demo/imgdemo", swiftSettings: swift),

        // Tests.
        .target(
            name: "CTestSupport",
            dependencies: ["CJPEG", "CWebP"] + families.compactMap(\.module).map { .init(stringLiteral: $0) },
            path: "Tests/CTestSupport", cSettings: c),
        .target(
            name: "TestSupport",
            dependencies: [
                "BrokerHarness", "CTestSupport", "ImageBrokerClient", "IPCProtocol", "IPCTransport", "LinuxSystem",
                "LocalOrigin", "SharedCache", "SystemValues",
            ],
            path: "Tests/TestSupport", swiftSettings: swift + optimized),
        .target(
            name: "CodingTestSupport", dependencies: ["JSONCoding", "SystemValues"], path: "Tests/CodingTestSupport",
            swiftSettings: swift),
        .target(name: "CProbe", path: "Tests/CProbe", cSettings: c),
        .executableTarget(
            name: "imgprobe",
            dependencies: [
                "CProbe", "Digests", "DiskRecords", "HTTPValues", "ImageBrokerClient", "IPCProtocol", "IPCTransport",
                "JSONCoding", "LinuxSystem", "Sandbox", "SharedCache", "WorkerProtocol", "WorkerRuntime",
            ],
            path: "Tests/imgprobe", swiftSettings: swift),
        .testTarget(
            name: "WorkerRuntimeTests",
            dependencies: [
                "imgprobe", "IPCProtocol", "IPCTransport", "LinuxSystem", "Sandbox", "SystemValues", "TestSupport",
                "WorkerProtocol", "WorkerRuntime",
            ],
            swiftSettings: swift),
        .testTarget(
            name: "SandboxTests",
            dependencies: [
                "imgprobe", "IPCProtocol", "LinuxSystem", "Sandbox", "SystemValues", "TestSupport",
            ],
            swiftSettings: swift),
        .testTarget(name: "SystemValuesTests", dependencies: ["SystemValues"], swiftSettings: swift),
        .testTarget(
            name: "JSONCodingTests", dependencies: ["CodingTestSupport", "JSONCoding", "SystemValues"],
            swiftSettings: swift),
        .testTarget(
            name: "HTTPValuesTests", dependencies: ["CodingTestSupport", "HTTPValues", "JSONCoding", "SystemValues"],
            exclude: ["Golden"], swiftSettings: swift),
        .testTarget(
            name: "IPCProtocolTests",
            dependencies: ["CodingTestSupport", "HTTPValues", "IPCProtocol", "JSONCoding", "SystemValues"],
            exclude: ["Golden"],
            swiftSettings: swift),
        .testTarget(
            name: "WorkerProtocolTests",
            dependencies: [
                "CodingTestSupport", "DiskRecords", "HTTPValues", "IPCProtocol", "JSONCoding", "SystemValues",
                "WorkerProtocol",
            ],
            exclude: ["Golden"], swiftSettings: swift),
        .testTarget(
            name: "HTTPCachingTests", dependencies: ["HTTPCaching", "HTTPValues", "IPCProtocol"],
            swiftSettings: swift),
        .testTarget(
            name: "SharedCacheTests",
            dependencies: [
                "Digests", "IPCProtocol", "IPCTransport", "JSONCoding", "LinuxSystem", "SharedCache", "SystemValues",
                "TestSupport",
            ],
            swiftSettings: swift),
        .testTarget(
            name: "BrokerCoreTests",
            dependencies: [
                "BrokerCore", "CodingTestSupport", "Digests", "DiskRecords", "HTTPCaching", "HTTPValues", "IPCProtocol",
                "SystemValues", "WorkerProtocol",
            ],
            exclude: ["Golden"], swiftSettings: swift),
        .testTarget(
            name: "imgbrokerTests",
            dependencies: [
                "BrokerCore", "CodingTestSupport", "imgbroker", "Digests", "DiskRecords", "HTTPCaching", "HTTPValues",
                "IPCProtocol",
                "LinuxSystem",
                "SharedCache", "SystemValues", "TestSupport", "WorkerProtocol",
            ],
            exclude: ["Golden"], swiftSettings: swift),
        .testTarget(
            name: "imgfetchTests",
            dependencies: [
                "imgfetch", "CTransfer", "Digests", "HTTPValues", "IPCProtocol", "IPCTransport", "JSONCoding",
                "LinuxSystem",
                "LocalOrigin", "SharedCache", "SystemValues", "TestSupport", "WorkerProtocol", "WorkerRuntime",
            ],
            swiftSettings: swift),
        .testTarget(
            name: "ImageDecodingTests",
            dependencies: [
                "imgworker", "CImageCodecs", "Digests", "HTTPValues", "IPCProtocol", "IPCTransport", "ImageDecoding",
                "LinuxSystem", "SharedCache", "SystemValues", "TestSupport", "WorkerProtocol",
            ] + families.map { .init(stringLiteral: $0.worker) },
            exclude: ["Animation/AnimationDigests.txt"], swiftSettings: swift),
        .testTarget(
            name: "imgcacheTests",
            dependencies: [
                "imgcache", "Digests", "DiskFiles", "DiskRecords", "HTTPValues", "IPCProtocol", "IPCTransport",
                "JSONCoding", "LinuxSystem", "SharedCache", "SystemValues", "TestSupport", "WorkerProtocol",
                "WorkerRuntime",
            ],
            swiftSettings: swift),
        .testTarget(
            name: "imgtierTests",
            dependencies: [
                "imgtier", "Digests", "DiskRecords", "HTTPValues", "IPCProtocol", "LinuxSystem", "SystemValues",
                "TestSupport", "WorkerProtocol", "WorkerRuntime",
            ],
            swiftSettings: swift),
        .testTarget(
            name: "imgexporterTests",
            dependencies: ["imgexporter", "IPCProtocol", "JSONCoding", "LinuxSystem", "TestSupport", "WebServing"],
            swiftSettings: swift),
        .testTarget(
            name: "WebServingTests", dependencies: ["HTTPValues", "SystemValues", "WebServing"], swiftSettings: swift),
        .testTarget(
            name: "imghttpTests",
            dependencies: [
                "imghttp", "ImageBrokerClient", "IPCProtocol", "LinuxSystem", "SystemValues", "TestSupport",
                "WebServing",
            ],
            swiftSettings: swift),
        // What fuzzing found, without the fuzzer, which has a package of its own.
        .testTarget(
            name: "FuzzTests",
            dependencies: [
                "DiskFiles", "DiskRecords", "HTTPCaching", "HTTPValues", "IPCProtocol", "JSONCoding", "LinuxSystem",
                "SharedCache", "WorkerProtocol", "imgcache", "imgfetch", "imgtier", "imgworker", "ImageDecoding",
            ] + families.map { .init(stringLiteral: $0.worker) },
            path: "Fuzz", exclude: ["Driver", "Package.swift", "Product", "Regressions"],
            sources: ["Replay", "Targets"], swiftSettings: swift),
        .testTarget(
            name: "IntegrationTests",
            dependencies: [
                "imgbroker", "imgexporter", "imgfetch", "imghttp", "imgprobe", "imgtier", "imgworker", "Digests",
                "HTTPValues",
                "ImageBrokerClient",
                "IPCProtocol", "IPCTransport", "JSONCoding", "LinuxSystem", "LocalOrigin", "SharedCache",
                "SystemValues", "TestSupport", "WorkerProtocol",
            ] + families.map { .init(stringLiteral: $0.worker) },
            swiftSettings: swift),
    ],
    cLanguageStandard: .gnu11
)

for family in families {
    package.products.append(.executable(name: family.worker, targets: [family.worker]))
    var dependencies: [Target.Dependency] = [
        "CImageCodecs", "IPCProtocol", "ImageDecoding", "Sandbox", "WorkerProtocol",
    ]
    if let shim = family.shim, let module = family.module {
        dependencies.append(.init(stringLiteral: shim))
        package.targets.append(
            .target(
                name: shim, dependencies: ["CImageCodecs", .init(stringLiteral: module)],
                cSettings: c + optimizedC, linkerSettings: family.libraries.map { .linkedLibrary($0) }))
    }
    package.targets.append(
        .executableTarget(name: family.worker, dependencies: dependencies, swiftSettings: swift + optimized))
}

/// What is built only where it is asked for: `IMGBROKER_WITH="benchmarks simulator" swift build -c release`.
let with = Set((Context.environment["IMGBROKER_WITH"] ?? "").split(separator: " ").map(String.init))
let benchmarkSwift: [SwiftSetting] = [.swiftLanguageMode(.v6), .enableUpcomingFeature("MemberImportVisibility")]
if with.contains("benchmarks") {
    package.targets += [
        .target(name: "CEcho", path: "Benchmarks/CEcho"),
        .target(
            name: "CReference", path: "Benchmarks/CReference",
            linkerSettings: ["jpeg", "png", "webp", "avif", "gif"].map { .linkedLibrary($0) }),
        .executableTarget(name: "delayrelay", path: "Benchmarks/delayrelay"),
        .executableTarget(
            name: "cget", path: "Benchmarks/cget", linkerSettings: [.linkedLibrary("memcached")]),
        .executableTarget(name: "ctier", path: "Benchmarks/ctier"),
        .executableTarget(name: "ownstart", path: "Benchmarks/ownstart"),
        .executableTarget(name: "ckept", path: "Benchmarks/ckept", linkerSettings: [.linkedLibrary("jansson")]),
        .executableTarget(
            name: "cfeed", dependencies: ["CReference"], path: "Benchmarks/cfeed",
            linkerSettings: [.linkedLibrary("curl")]),
        .executableTarget(
            name: "benchclient", dependencies: ["HTTPValues", "IPCProtocol", "ImageBrokerClient"],
            path: "Benchmarks/benchclient", swiftSettings: benchmarkSwift,
            // As a program that is handed to users.
            linkerSettings: contained),
        .executableTarget(
            name: "imgbench",
            dependencies: [
                "BrokerHarness", "CEcho", "CReference", "HTTPValues", "IPCProtocol", "ImageBrokerClient", "LinuxSystem",
                "LocalOrigin", "SharedCache",
            ],
            path: "Benchmarks/imgbench", swiftSettings: benchmarkSwift),
        // A model of many brokers with one shared tier (docs/fleet.md).
        .executableTarget(
            name: "fleetsim", dependencies: ["SystemValues"], path: "Benchmarks/fleetsim",
            swiftSettings: benchmarkSwift),
    ]
}
// It imports the core `@testable`, so a release build of it needs `-Xswiftc -enable-testing` and a build folder of its
// own.
if with.contains("simulator") {
    package.targets.append(
        .executableTarget(
            name: "cachesim",
            dependencies: [
                "BrokerCore", "Digests", "HTTPCaching", "HTTPValues", "IPCProtocol", "SystemValues", "WorkerProtocol",
            ],
            path: "Benchmarks/cachesim", swiftSettings: benchmarkSwift))
}

// For builds with a sanitizer:
// `IMGBROKER_TEST_TARGETS="JSONCodingTests IntegrationTests:Support,Requests/CancelTests.swift"` builds these tests, of
// the second target these sources, and what they need besides programs that the tests only start.
if let chosen = Context.environment["IMGBROKER_TEST_TARGETS"] {
    package.products = []
    var needed: Set<String> = []
    func need(_ name: String) {
        guard needed.insert(name).inserted, let target = package.targets.first(where: { $0.name == name }) else {
            return
        }
        for case .byNameItem(let dependency, _) in target.dependencies { need(dependency) }
    }
    let programs = Set(package.targets.filter { $0.type == .executable }.map(\.name))
    for words in chosen.split(separator: " ").map({ $0.split(separator: ":").map(String.init) }) {
        if words.count == 2, let target = package.targets.first(where: { $0.name == words[0] }) {
            target.sources = words[1].split(separator: ",").map(String.init)
            target.dependencies.removeAll {
                if case .byNameItem(let name, _) = $0 { programs.contains(name) } else { false }
            }
        }
        need(words[0])
    }
    package.targets.removeAll { !needed.contains($0.name) }
}
