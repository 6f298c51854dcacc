import LinuxSystem

// imgdemo [--images DIR] [--output DIR]: shows what imgbroker does. It starts itself again for each client process.
do {
    switch try Options(CommandLine.arguments.dropFirst()).mode {
    case .help: CurrentProcess.writeToStandardOutput(Options.usage + "\n")
    case .client(let socket, let list): try ClientProcess.run(socket: socket, list: list)
    case .demonstration(let images, let output, let processes):
        let household = try Household()
        let status = try Demonstration(images: images, output: output, processes: processes, household: household).run()
        CurrentProcess.exit(household.end(status: status))
    }
} catch {
    // When a signal is ending everything, what fails on the way is no news.
    Household.waitIfEnding()
    CurrentProcess.writeToStandardError("imgdemo: \(error)\n")
    CurrentProcess.exit(Household.endCurrent(status: 1))
}
