/// `get` with lists of sources, with the terminal, and as a thumbnailer of file managers.
@Suite(.blocking, .timeLimit(.minutes(5))) struct SourceListTests {
    private let setting: Setting
    private let directory: TemporaryDirectory
    init() throws {
        setting = try Setting(routes: ["/a.png": png(tile(1)), "/b.png": png(tile(2))])
        directory = try TemporaryDirectory()
    }

    /// Runs `get` in a shell with `$program`, `$socket` and `$dir`.
    private func shell(_ script: String) throws -> ProgramResult {
        try run(
            "/bin/sh", ["-c", script],
            environment: [
                "program=\(program)", "IMGBROKER_SOCKET=\(setting.broker.socketPath)", "dir=\(directory.path)",
                "a=\(setting.url("/a.png"))", "b=\(setting.url("/b.png"))",
            ])
    }

    @Test func listOnStandardInput() throws {
        let result = try shell(#"printf '%s\n\n%s\r\n%s\n' $a $b $a-no | $program get"#)
        #expect(result.exit == .status(1) && result.output.split(separator: "\n").count == 2, "\(result)")
        let errors = result.errors.split(separator: "\n")
        #expect(errors.count == 2 && errors.first?.contains("http-status") == true)
        #expect(errors.last?.hasPrefix("2 images in ") == true && errors.last?.hasSuffix(", 1 failed") == true)
        #expect(errors.last?.contains("2 from the network") == true)
    }

    @Test func listInFile() throws {
        let result = try shell(#"echo $b >$dir/list; $program get $a -i $dir/list -o "$dir/{name}.webp" && ls $dir"#)
        #expect(result.exit == .status(0) && result.output.hasSuffix("a.webp\nb.webp\nlist\n"), "\(result)")
    }

    @Test func objectsWithoutSummary() throws {
        let result = try shell(#"printf '%s\n' $a $b | $program get --json"#)
        #expect(result.exit == .status(0) && result.errors == "")
        #expect(result.output.split(separator: "\n").allSatisfy { $0.hasPrefix(#"{"type":"image","input":"#) })
    }

    @Test(arguments: [
        ("get </dev/null", "get needs a URL or a file"), ("get -i /no/such", "the list \"/no/such\" cannot be read"),
        ("get -i /", "cannot be read"), ("get -i - <$dir/minus", "has the line \"-\""),
        ("get --preview $a", "--preview needs a terminal"), ("get --preview --json $a", "--preview goes with none of"),
    ]) func wrongUse(_ words: String, _ message: String) throws {
        let result = try shell("echo - >$dir/minus; $program \(words)")
        #expect(result.exit == .status(2))
        #expect(result.errors.contains(message) && result.errorLines.count == 1, "\(result.errors)")
    }

    /// Runs in a terminal of 80 × 24 characters, which answers `answer`.
    private func preview(_ answer: String) throws -> String {
        let command = "stty rows 24 cols 80 && $program get --preview $a"
        let result = try shell(
            """
            mkfifo $dir/keys
            timeout 30 script -qec '\(command)' /dev/null <$dir/keys &
            # Open until the command has ended, which otherwise would see the end of its input.
            exec 3>$dir/keys
            printf '\(answer)' >&3
            wait $!
            rm $dir/keys
            """)
        return result.output
    }

    @Test func preview() throws {
        #expect(try preview(#"\033[?62;4c"#).contains("\u{1B}P0;1q\"1;1;"))
        #expect(try preview(#"\033_Gi=31;OK\033\\\033[?62c"#).contains("\u{1B}_Gf=100,a=T,q=2,"))
        let blocks = try preview(#"\033[?62c"#)
        #expect(blocks.contains("▀") && blocks.contains("image/png"))
    }

    /// Runs the command of the entry as the specification of desktop entries says.
    @Test func thumbnailer() throws {
        let entry = try String(
            contentsOfFile: BuiltProducts.package + "/packaging/freedesktop/imgbroker.thumbnailer", encoding: .utf8)
        let command = try #require(entry.split(separator: "\n").first { $0.hasPrefix("Exec=imgbroker ") })
        let photo = try directory.write(tile(3).png, to: "photo")
        let words = command.dropFirst("Exec=imgbroker ".count).split(separator: " ").map { word in
            switch word {
            case "%s": "16"
            case "%i": photo
            case "%o": directory.file("thumbnail")
            default: String(word)
            }
        }
        #expect(try setting.broker.run(words).failure == nil)
        #expect(contents(directory.file("thumbnail"))?.starts(with: [0x89, 0x50, 0x4E, 0x47]) == true)
    }
}
