// swift-tools-version: 6.2
import PackageDescription

let package = Package(
    name: "imgexample",
    // In a package of yours: .package(url: "…", from: "0.1.0")
    dependencies: [.package(name: "imgbroker", path: "../../..")],
    targets: [
        .executableTarget(
            name: "imgexample",
            dependencies: [.product(name: "ImageBrokerClient", package: "imgbroker")],
            swiftSettings: [
                .swiftLanguageMode(.v6), .enableUpcomingFeature("MemberImportVisibility"),
                .enableUpcomingFeature("InternalImportsByDefault"), .treatAllWarnings(as: .error),
            ])
    ]
)
