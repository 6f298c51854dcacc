import BrokerCore
import LinuxSystem

/// The command lines of a program that takes the place of a running broker, by `execve` in the same process.
///
///     imgbroker take-over FD [OPTION]...     serves with the state behind the descriptor
///     imgbroker check-state [OPTION]...      exits with 0 if it could, with the state as descriptor 3
enum TakeOver {
    /// Whether this program could take over, for the process that asks before it gives up its own.
    static func check(_ words: some Sequence<String>) -> Int32 {
        let control = FileDescriptor(owning: WorkerLauncher.controlDescriptor)
        do {
            guard case .serve(let settings) = try BrokerCommandLine.read(words) else { return 2 }
            _ = try KeptState(in: control)
            _ = try ServeCommand.prepare(settings.configuration, isTakingOver: true)
            return 0
        } catch {
            StandardError.write("cannot take over: \(error)")
            return 1
        }
    }

    /// Serves in place of the broker whose state a descriptor has.
    static func run(_ words: some Sequence<String>) throws(UsageError) -> Int32 {
        let words = Array(words)
        guard let number = words.first.flatMap({ Int32($0) }), number > 2,
            (try? FileDescriptor.closeOnExec(number)) != nil
        else { return 2 }
        guard case .serve(let settings) = try BrokerCommandLine.read(words.dropFirst()) else { return 2 }
        do {
            let state = try KeptState(in: FileDescriptor(owning: number))
            return ServeCommand.run(settings, try Inheritance(state))
        } catch {
            StandardError.write("cannot take over: \(error)")
            return 1
        }
    }
}
