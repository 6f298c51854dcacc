/// The exit statuses of the commands that connect to a broker.
enum CommandStatus {
    static let done: Int32 = 0
    static let failed: Int32 = 1
    static let noBroker: Int32 = 3
}
