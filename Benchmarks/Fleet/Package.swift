// swift-tools-version: 6.2
import PackageDescription

// A model of many brokers with one shared tier (docs/fleet.md). It needs nothing of the product.

let package = Package(
    name: "imgbroker-fleet",
    targets: [.executableTarget(name: "fleetsim", swiftSettings: [.swiftLanguageMode(.v6)])]
)
