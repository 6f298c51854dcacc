/// `imgbroker store`: encoded images and rows of pixels from files and standard input.
@Suite(.blocking, .timeLimit(.minutes(10))) struct StoreCommandTests {
    private static let url = "http://stored.example/a"

    private let picture = TestPicture.gradient(width: 21, height: 13, transparent: true)
    private let directory: TemporaryDirectory
    private let setting: Setting

    init() throws {
        directory = try TemporaryDirectory()
        setting = try Setting { _ in .status(404) }
    }

    private func store(_ words: String...) throws -> ProgramResult {
        try setting.broker.run(["store", Self.url] + words)
    }

    /// Loads the stored image as a file, and returns its pixels with straight alpha.
    private func loaded() throws -> TestPicture {
        let client = try setting.client()
        return try client.picture(of: Self.url, #""variant":{"alpha":"straight"}"#)
    }

    @Test func encodedImages() throws {
        let result = try store(directory.write(picture.png, to: "a.png"), "--content-type", "image/png")
        #expect((result.exit, result.output) == (.status(0), "stored \(Self.url)\n"), "\(result.errors)")
        #expect(try loaded() == picture)
    }

    @Test(arguments: ["cat %@ | exec ", "exec <%@ "]) func standardInput(_ beginning: String) throws {
        let path = try directory.write(picture.png, to: "a.png")
        let script = beginning.replacing("%@", with: path) + "\"$0\" \"$@\""
        for last in [[], ["-"]] {
            let words = [program, "store", Self.url, "--socket", setting.broker.socketPath, "--json"] + last
            let result = try run("/bin/sh", ["-c", script.replacing("exec <", with: "<")] + words)
            #expect(result.exit == .status(0), "\(result.errors)")
            #expect(result.output == "{\"url\":\"\(Self.url)\",\"stored\":true}\n")
        }
        #expect(try loaded() == picture)
    }

    /// Rows with padding after an offset, and in another order of the channels.
    @Test func pixels() throws {
        var bytes = [UInt8](repeating: 9, count: 5)
        for row in 0..<picture.height {
            for column in 0..<picture.width {
                let pixel = picture[column, row]
                bytes += [pixel.z, pixel.y, pixel.x, pixel.w]
            }
            bytes += [7, 7, 7]
        }
        let path = try directory.write(bytes, to: "a.bgra")
        let rows = ["--pixels", "21x13", "--stride", "87", "--offset", "5"]
        let result = try setting.broker.run(
            ["store", Self.url, path, "--pixel-format", "bgra8", "--storage", "disk"] + rows)
        #expect(result.exit == .status(0), "\(result.errors)")
        #expect(try loaded() == picture)
        try directory.write(bytes.dropLast(), to: "a.bgra")
        let short = try setting.broker.run(["store", Self.url, path] + rows)
        #expect(short.exit == .status(1))
        #expect(short.errors.contains("The rows do not end within the 1135 bytes"), "\(short.errors)")
    }

    @Test func refusals() throws {
        let result = try store(try directory.write("no image", to: "a.png"))
        #expect(result.exit == .status(1) && result.errors.contains("unsupported-format"), "\(result)")
        for (path, message) in [(directory.path, "is a directory"), (directory.file("missing"), "does not exist")] {
            let result = try store(path)
            #expect(result.exit == .status(1) && result.errors.contains(message), "\(result)")
        }
        let object = try store(directory.file("missing"), "--json")
        #expect(object.output.contains("\"code\":\"bad-request\""), "\(object.output)")
    }
}
