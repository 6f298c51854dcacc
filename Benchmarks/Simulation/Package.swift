// swift-tools-version: 6.2
import PackageDescription

// The pure index without the broker around it: the simulator of eviction looks inside of modules, as tests do. They are
// found through the link `Product`: a package depends on products of another one, and these modules are none.

let swift: [SwiftSetting] = [
    .swiftLanguageMode(.v6), .strictMemorySafety(), .enableUpcomingFeature("ExistentialAny"),
    .enableUpcomingFeature("InternalImportsByDefault"), .enableUpcomingFeature("MemberImportVisibility"),
    .unsafeFlags(["-enable-testing"]),
]

let package = Package(
    name: "imgbroker-simulation",
    targets: [
        .systemLibrary(name: "CNettle", path: "Product/SystemModules/CNettle", pkgConfig: "nettle"),
        .target(name: "CLinux", path: "Product/CLinux"),
        .target(name: "LinuxSystem", dependencies: ["CLinux"], path: "Product/LinuxSystem", swiftSettings: swift),
        .target(
            name: "SharedCache", dependencies: ["CLinux", "CNettle", "LinuxSystem"], path: "Product/SharedCache",
            swiftSettings: swift),
        .target(
            name: "IPCProtocol", path: "Product/IPCProtocol", swiftSettings: swift,
            linkerSettings: [.linkedLibrary("m")]),
        .target(
            name: "HTTPCaching", dependencies: ["IPCProtocol"], path: "Product/HTTPCaching", swiftSettings: swift),
        .target(
            name: "imgbroker", dependencies: ["HTTPCaching", "IPCProtocol", "LinuxSystem", "SharedCache"],
            path: "Product/imgbroker/State", swiftSettings: swift),
        .executableTarget(
            name: "cachesim", dependencies: ["HTTPCaching", "IPCProtocol", "LinuxSystem", "imgbroker"],
            swiftSettings: [.swiftLanguageMode(.v6), .enableUpcomingFeature("MemberImportVisibility")]),
    ],
    cLanguageStandard: .gnu11
)
