import IPCProtocol
import LinuxSystem

// Before any file is opened.
CurrentProcess.openStandardDescriptors()
// Chooses the command.
do {
    let words = CommandLine.arguments.dropFirst()
    CurrentProcess.setNameOfProgram()
    switch words.first {
    case "get": CurrentProcess.exit(try GetCommand.run(words.dropFirst()))
    case "info": CurrentProcess.exit(try InfoCommand.run(words.dropFirst()))
    case "store": CurrentProcess.exit(try StoreCommand.run(words.dropFirst()))
    case DescriptorCloser.word: CurrentProcess.exit(DescriptorCloser.run(words.dropFirst()))
    case DescriptorReceiver.word: CurrentProcess.exit(DescriptorHelper.run(words.dropFirst()))
    case SocketRemover.word: CurrentProcess.exit(SocketRemover.run(words.dropFirst()))
    case TakeOverWords.takeOver: CurrentProcess.exit(try TakeOver.run(words.dropFirst()))
    case TakeOverWords.check: CurrentProcess.exit(TakeOver.check(words.dropFirst()))
    case "ctl": CurrentProcess.exit(try CtlCommand.run(words.dropFirst()))
    case "exporter": CurrentProcess.exit(try ExporterCommand.run(words.dropFirst()))
    case "http": CurrentProcess.exit(try HTTPCommand.run(words.dropFirst()))
    case "doctor":
        CurrentProcess.exit(DoctorCommand.run(try BrokerCommandLine.read(words.dropFirst()).settings?.configuration))
    default:
        switch try BrokerCommandLine.read(words) {
        case .serve(let settings): CurrentProcess.exit(ServeCommand.run(settings))
        case .check(let given):
            StandardOutput.write(given.text)
            for warning in try given.configuration().warnings.values { StandardError.write(warning) }
        case .manual(let page): StandardOutput.write(page.text)
        case .completion(let shell): StandardOutput.write(shell.text)
        case .help: StandardOutput.write(BrokerCommandLine.usage + "\n")
        case .formats(let json): try FormatsCommand.run(json: json)
        case .version: StandardOutput.write(ProductVersion.product + "\n")
        }
    }
} catch {
    StandardError.write("\(error)")
    CurrentProcess.exit(2)
}
