// swift-tools-version: 6.2
import PackageDescription

let swift: [SwiftSetting] = [.swiftLanguageMode(.v6), .enableUpcomingFeature("MemberImportVisibility")]

let package = Package(
    name: "imgbroker-benchmarks",
    dependencies: [.package(name: "imgbroker", path: "..")],
    targets: [
        .target(name: "CEcho"),
        .target(
            name: "CReference",
            linkerSettings: [
                .linkedLibrary("jpeg"), .linkedLibrary("png"), .linkedLibrary("webp"), .linkedLibrary("avif"),
                .linkedLibrary("gif"),
            ]),
        .executableTarget(name: "delayrelay"),
        .executableTarget(name: "cget", linkerSettings: [.linkedLibrary("memcached")]),
        .executableTarget(name: "ctier"),
        .executableTarget(name: "ownstart"),
        .executableTarget(name: "ckept", linkerSettings: [.linkedLibrary("jansson")]),
        .executableTarget(name: "cfeed", dependencies: ["CReference"], linkerSettings: [.linkedLibrary("curl")]),
        .executableTarget(
            name: "benchclient",
            dependencies: [
                .product(name: "ImageBrokerClient", package: "imgbroker")
            ], swiftSettings: swift,
            // As a program that is handed to users.
            linkerSettings: [.unsafeFlags(["-static-stdlib"], .when(configuration: .release))]),
        .executableTarget(
            name: "imgbench",
            dependencies: [
                "CEcho", "CReference", .product(name: "ImageBrokerClient", package: "imgbroker"),
                .product(name: "BrokerHarness", package: "imgbroker"),
                .product(name: "LocalOrigin", package: "imgbroker"),
            ], swiftSettings: swift),
    ],
    cLanguageStandard: .gnu11
)
