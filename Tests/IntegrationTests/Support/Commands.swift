let program = BuiltProducts.folder + "/imgbroker"

/// Runs `imgbroker` with its words.
func imgbroker(_ words: [String], environment: [String] = []) throws -> ProgramResult {
    try run(program, words, environment: environment)
}

extension TestBroker {
    /// Runs a command of `imgbroker` that connects to this broker.
    func run(_ words: [String]) throws -> ProgramResult { try imgbroker(words + ["--socket", socketPath]) }
}

extension ProgramResult {
    var errorLines: [Substring] { errors.split(separator: "\n") }

    /// The exit and the output of a command that has failed; nil when it has succeeded.
    var failure: String? { exit == .status(0) ? nil : "\(self)" }
}

extension GetOptions {
    /// Creates options that differ from the defaults.
    init(_ change: (inout GetOptions) -> Void) {
        self.init()
        change(&self)
    }
}

extension BrokerImage {
    var copiedBytes: [UInt8] { withBytes { unsafe $0.withUnsafeBytes { unsafe Array($0) } } }

    /// The seed of a `tile`.
    var seed: Int { withBytes { unsafe $0.withUnsafeBytes { unsafe Int($0[0]) | Int($0[1]) << 8 } } }
}

/// A memfd with bytes, without seals or sealed for good.
func memoryFile(_ bytes: [UInt8], isSealed: Bool = false) throws -> FileDescriptor {
    let file = try WritableBuffer(name: "given").descriptor
    try file.write(bytes)
    if isSealed { try file.seal() }
    return file
}

/// The ends of a pipe: for reading, and for writing.
func pipeEnds() throws -> (reading: FileDescriptor, writing: FileDescriptor) {
    var ends: [Int32] = [0, 0]
    guard unsafe pipe(&ends) == 0 else { throw SystemError("pipe") }
    return (FileDescriptor(owning: ends[0]), FileDescriptor(owning: ends[1]))
}

extension FileDescriptor {
    func write(_ bytes: [UInt8], at offset: Int = 0) throws {
        try unsafe bytes.withUnsafeBytes { try unsafe write($0, at: offset) }
    }
}

extension TemporaryDirectory {
    /// Writes a file in it, and returns the path.
    @discardableResult
    func write(_ bytes: some Sequence<UInt8>, to name: String) throws -> String {
        try Data(bytes).write(to: URL(filePath: file(name)))
        return file(name)
    }

    @discardableResult
    func write(_ text: String, to name: String) throws -> String { try write(text.utf8, to: name) }

    func makeDirectory(_ name: String) throws {
        try FileManager.default.createDirectory(atPath: file(name), withIntermediateDirectories: true)
    }
}

func mode(of path: String) throws -> Int? {
    try FileManager.default.attributesOfItem(atPath: path)[.posixPermissions] as? Int
}

/// The contents of a file; nil when it cannot be read.
func contents(_ path: String) -> [UInt8]? { FileManager.default.contents(atPath: path).map { Array($0) } }

func jsonObject(_ text: some StringProtocol) throws -> [String: Any] {
    try #require(try JSONSerialization.jsonObject(with: Data(text.utf8)) as? [String: Any], "\(text)")
}

extension ChildProcess {
    /// Starts a program whose control socket has no other end.
    convenience init(_ path: String, _ arguments: [String], environment: [String] = []) throws {
        let (_, control) = try UnixSocket.pair()
        try self.init(path: path, arguments: arguments, environment: environment, control: control)
    }

    func kill() {
        send(SignalNumber.kill)
        _ = waitForExit(milliseconds: 5000)
    }
}

func waitForExit(of processes: [ProcessStatus]) throws {
    for process in processes { try eventually("\(process.pid) has exited") { !process.isAlive } }
}
