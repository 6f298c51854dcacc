import IPCProtocol
import IPCTransport
import JSONCoding
import LinuxSystem
import SystemValues
import WorkerProtocol

/// `imgbroker --formats`: lists the formats of the installed programs. No codec is linked here, so each is asked.
enum FormatsCommand {
    static func run(json: Bool) throws {
        guard let launcher = WorkerLauncher() else {
            throw UsageError("imgworker is neither beside imgbroker nor in ../libexec/imgbroker")
        }
        var rows: [FormatRow] = []
        for family in CodecFamily.allCases where family == .plain || launcher.families.contains(family) {
            rows += try self.rows(of: launcher.directory + "/" + family.program)
        }
        StandardOutput.write(json ? object(rows) + "\n" : text(rows))
    }

    private static func rows(of program: String) throws -> [FormatRow] {
        let (own, control) = try UnixSocket.pair()
        let worker = try ChildProcess(path: program, arguments: [FormatReport.option], control: control)
        let channel = FrameChannel(socket: own)
        let report =
            channel.waitUntilReadable(milliseconds: 10_000) ? try? channel.receiveMessage(FormatReport.self)?.0 : nil
        worker.send(SignalNumber.kill)
        _ = worker.waitForExit(milliseconds: 1000)
        guard let report else { throw UsageError("\(program) does not answer") }
        return report.rows
    }

    static func text(_ formats: [FormatRow]) -> String {
        let yes = { (value: Bool) in value ? "yes" : "no" }
        let titles = ["Format", "Media type", "Several images", "Also written", "Orientation", "Decoded by"]
        return TopTable(
            columns: titles.map { TopTable.Column(title: $0, isText: true) },
            rows: formats.map { row in
                [
                    row.format.name, row.format.contentType, yes(row.hasFrames), yes(row.isEncoded), row.orientation,
                    row.library,
                ]
            }
        ).text
    }

    static func object(_ formats: [FormatRow]) -> String {
        var writer = JSONWriter()
        writer.object {
            $0.array("formats", of: formats) { entry, row in
                entry.member("format", row.format.rawValue)
                entry.member("contentType", row.format.contentType)
                entry.member("frames", row.hasFrames)
                entry.member("encoded", row.isEncoded)
                entry.member("orientation", row.orientation)
                entry.member("library", row.library)
            }
        }
        return String(decoding: writer.bytes, as: UTF8.self)
    }
}
