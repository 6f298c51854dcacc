/// The client library while the kernel refuses to send descriptors, because too many of the user are in flight or it
/// lacks memory. The socket is writable meanwhile.
@Suite(.blocking, .timeLimit(.minutes(5))) struct RefusedMessageTests {
    /// `imgbroker get` has a limit of patience, the other clients have none.
    @Test(arguments: [ETOOMANYREFS, ENOBUFS, ENOMEM], ["get", "waiting", "tasks"])
    func `a refused message is sent after a pause`(error: Int32, client: String) throws {
        let directory = try TemporaryDirectory()
        let (library, refusals) = (directory.file("send.so"), directory.file("refusals"))
        try Compiler.makeLibrary(library, of: "Tests/SendShim/SendShim.c")
        let image = directory.file("image.png")
        try Data(tile(1).png).write(to: URL(filePath: image))
        let broker = try TestBroker()
        let environment = ["LD_PRELOAD=\(library)", "SEND_REFUSALS=\(refusals)", "SEND_ERROR=\(error)"]
        let result =
            if client == "get" {
                try imgbroker(["get", image, "--socket", broker.socketPath], environment: environment)
            } else {
                try run(
                    BuiltProducts.folder + "/imgprobe", ["load", broker.socketPath, image, client],
                    environment: environment)
            }
        #expect(result.failure == nil)
        // About one attempt in 10 ms, for 200 ms.
        #expect(try (1...40).contains(Data(contentsOf: URL(filePath: refusals)).count))
    }
}
