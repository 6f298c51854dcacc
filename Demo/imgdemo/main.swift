import BrokerHarness
import Foundation

let usage = """
    Usage: imgdemo [--images DIR] [--output DIR] [--processes N]

    Starts a broker, an HTTP origin with the images in DIR (default: generated ones) and N client processes
    (default: 6) that all request every image in three sizes at once; then starts another broker with the
    same cache directory and N new processes that request the same. Prints the work that it took, and
    writes a contact sheet.
    """

/// Runs the program and returns the exit status.
func run(_ arguments: [String], in session: inout Session?) throws -> Int32 {
    // How this program starts its client processes.
    if arguments.count == 2, arguments[0] == "client" {
        try ClientProcess.run(socket: arguments[1])
        return 0
    }
    var values = ["--output": "demo-output", "--processes": "6"]
    var rest = arguments.makeIterator()
    while let flag = rest.next() {
        if flag == "--help" || flag == "-h" {
            print(usage)
            return 0
        }
        guard ["--images", "--output", "--processes"].contains(flag) else {
            throw HarnessFailure("unknown option \(flag)")
        }
        guard let value = rest.next() else { throw HarnessFailure("\(flag) needs a value") }
        values[flag] = value
    }
    guard let processes = Int(values["--processes"]!), (1...64).contains(processes) else {
        throw HarnessFailure("--processes needs a number from 1 to 64")
    }
    let new = try Session()
    session = new
    let demonstration = try Demonstration(
        images: values["--images"], output: values["--output"]!, processes: processes, session: new)
    return try demonstration.run() ? 0 : 1
}

var session: Session?
do {
    let status = try run(Array(CommandLine.arguments.dropFirst()), in: &session)
    session?.finish(status: status)
} catch {
    session?.finish(status: 1, message: "imgdemo: \(error)")
    FileHandle.standardError.write(Data("imgdemo: \(error)\n".utf8))
    exit(1)
}
