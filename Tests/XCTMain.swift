import Testing

/// The entry point of the test program. With this file, SwiftPM need not look for tests of XCTest in the compiler's
/// index, so the index need not be made (`--disable-index-store`).
@main
struct TestProgram {
    static func main() async { await Testing.__swiftPMEntryPoint() as Never }
}
