// swift-tools-version: 6.2
import PackageDescription

// The broker's core without the shell. The simulator imports modules `@testable`. They are built through the link `Product`,
// because a package can only depend on products of another one, and these modules are none.

let swift: [SwiftSetting] = [
    .swiftLanguageMode(.v6), .strictMemorySafety(), .enableUpcomingFeature("ExistentialAny"),
    .enableUpcomingFeature("InternalImportsByDefault"), .enableUpcomingFeature("MemberImportVisibility"),
    .unsafeFlags(["-enable-testing"]),
]

let package = Package(
    name: "imgbroker-simulation",
    targets: [
        .systemLibrary(name: "CNettle", path: "Product/SystemModules/CNettle", pkgConfig: "nettle"),
        .target(name: "SystemValues", path: "Product/SystemValues", swiftSettings: swift),
        .target(name: "Digests", dependencies: ["CNettle"], path: "Product/Digests", swiftSettings: swift),
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
            name: "BrokerCore",
            dependencies: [
                "Digests", "DiskRecords", "HTTPCaching", "HTTPValues", "IPCProtocol", "SystemValues", "WorkerProtocol",
            ],
            path: "Product/BrokerCore", swiftSettings: swift),
        .executableTarget(
            name: "cachesim",
            dependencies: [
                "Digests", "HTTPCaching", "HTTPValues", "IPCProtocol", "SystemValues", "BrokerCore",
            ],
            swiftSettings: [.swiftLanguageMode(.v6), .enableUpcomingFeature("MemberImportVisibility")]),
    ],
    cLanguageStandard: .gnu11
)
