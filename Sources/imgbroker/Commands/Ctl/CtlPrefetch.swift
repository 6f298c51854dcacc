import HTTPValues
import ImageBrokerClient
import JSONCoding
import LinuxSystem

/// `imgbroker ctl prefetch`: loads a list of URLs into the cache.
enum CtlPrefetch {
    static func run(_ request: CtlRequest) -> Int32 {
        let name = request.operands[0]
        let list: List
        do throws(SystemError) {
            let file = try name == "-" ? FileDescriptor.standardInput() : FileDescriptor.open(readingAt: name)
            list = List(try file.readToEnd())
        } catch {
            let source = name == "-" ? "standard input" : name
            StandardError.write("\(source) cannot be read: \(error)")
            return CommandStatus.failed
        }
        let bar = request.asJSON ? nil : ProgressBar()
        do throws(ClientError) {
            let broker = try CommandConnection.open(request.socketPath)
            list.complaints.forEach(StandardError.write)
            let bad = list.complaints.count
            let total = bad + list.urls.count
            var (done, failed) = try broker.prefetch(list.urls, request.options) { done, failed, _ in
                bar?.show(done: done, failed: failed + bad, of: total)
            }
            bar?.clear()
            failed += bad
            request.report("\(done) loaded, \(failed) failed of \(total)") {
                $0.member("done", done)
                $0.member("failed", failed)
                $0.member("total", total)
            }
            return failed > 0 ? CommandStatus.failed : CommandStatus.done
        } catch {
            bar?.clear()
            return CommandConnection.report(error, asJSON: request.asJSON)
        }
    }

    /// The lines of a list: URLs, and complaints about lines that are not URLs.
    struct List {
        private(set) var urls: [SourceURL] = []
        private(set) var complaints: [String] = []

        init(_ text: String) {
            // Editors may begin a file with a byte-order mark. A carriage return and a line feed are one character.
            let scalars = text.unicodeScalars
            let content = scalars.first == "\u{FEFF}" ? String(Substring(scalars.dropFirst())) : text
            let lines = content.split(omittingEmptySubsequences: false) { $0 == "\n" || $0 == "\r\n" }
            for (number, line) in lines.enumerated() {
                let blanks: Set<Character> = [" ", "\t", "\r"]
                var word = line.drop { blanks.contains($0) }
                while let last = word.last, blanks.contains(last) { word.removeLast() }
                if word.isEmpty || word.first == "#" { continue }
                do {
                    urls.append(try SourceURL(String(word)))
                } catch {
                    complaints.append("line \(number + 1): \(error.message)")
                }
            }
        }
    }
}
