import IPCProtocol
import Testing

@testable import BrokerCore

// Local files, as the helper has them.
extension StrictWorld {
    static func identity(_ inode: UInt64, size: Int = 1000, changed: Int = 7) -> FileIdentity {
        FileIdentity(device: 1, inode: inode, size: size, modified: changed, changed: changed)
    }

    /// Sends a `get` with a file.
    func getFile(
        _ client: ClientID, id: Int, _ file: FileID, name: String? = nil,
        _ change: (inout GetOptions) -> Void = { _ in }
    ) {
        var options = GetOptions()
        change(&options)
        let request = GetRequest(id: id, file: LocalFile(name: name), options: options)
        begin(request, of: client)
        files.insert(file)
        fileRequests[file] = (client, id)
        happen(.fileRequested(client, .get(request), file))
    }

    /// Sends a `get` with a file that is identified at once.
    func getFile(
        _ client: ClientID, id: Int, _ identity: FileIdentity, isRecent: Bool = false, isLocal: Bool = true,
        _ change: (inout GetOptions) -> Void = { _ in }
    ) {
        let file = FileID(number: 1000 * client.number + id)
        getFile(client, id: id, file, change)
        examine(file, identity, isRecent: isRecent, isLocal: isLocal)
    }

    func examine(
        _ file: FileID, _ identity: FileIdentity, isRecent: Bool = false, isLocal: Bool = true
    ) {
        // Only the first report on a file counts.
        if let (client, id) = fileRequests[file], fileURLs[client]?[id] == nil {
            fileURLs[client, default: [:]][id] = identity.url
        }
        happen(.fileExamined(file, .success(FileFacts(identity, isRecent: isRecent, isLocal: isLocal))))
    }

    func refuse(_ file: FileID) {
        happen(.fileExamined(file, .failure(WireError(.badRequest, "A pipe."))))
    }

    /// Finishes a read, and lets a decoder identify the bytes.
    func finishRead(_ job: JobID, content: Int? = nil) {
        if reading.removeValue(forKey: job) == nil { return complain("no such read") }
        happen(.fileRead(job))
        if let content, identifying[job] != nil { identify(job, content: content) }
    }

    func failRead(_ job: JobID, _ failure: FileReadFailure) {
        if reading.removeValue(forKey: job) == nil { return complain("no such read") }
        happen(.fileReadFailed(job, failure))
    }

    /// Ends the helper that has a file.
    func lose(_ file: FileID) {
        for (job, read) in reading where read.file == file { failRead(job, .lost) }
        happen(.fileLost(file))
    }

    /// The helper has exactly the files that the state needs, and those that are read.
    func checkFiles(after event: Event) {
        let needed = files.filter { state.files.knows($0) }
        if needed != files { complain("after \(event): files \(files.subtracting(needed)) that nothing needs") }
    }
}
