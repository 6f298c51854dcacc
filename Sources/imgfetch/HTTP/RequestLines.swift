import HTTPValues
internal import IPCProtocol
import WorkerProtocol

/// The header lines of a request in libcurl's form.
enum RequestLines {
    enum Kind: Equatable {
        case full
        /// For the whole body if it has changed.
        case conditional(RequestConditions)
        /// For the rest of the body.
        case range(FetchJob.Resumption)

        /// The fields that make the kind. The broker rejects them from clients.
        var fields: [HeaderField] {
            switch self {
            case .full: []
            case .conditional(let conditions):
                [("If-None-Match", conditions.etag), ("If-Modified-Since", conditions.lastModified)]
                    .compactMap { (name, value) in value.map { HeaderField(name: name, value: $0) } }
            case .range(let resumption):
                [
                    HeaderField(name: "Range", value: "bytes=\(resumption.offset)-"),
                    HeaderField(name: "If-Range", value: resumption.validator),
                ]
            }
        }
    }

    /// The job's header lines, and the defaults for missing ones.
    static func lines(_ fields: [HeaderField], kind: Kind, withCredentials: Bool) -> [String] {
        let credentials: Set = ["cookie", "authorization", "proxy-authorization", "host"]
        let sent = fields.filter { withCredentials || !credentials.contains($0.name.lowercased()) }
        let names = Set(sent.map { $0.name.lowercased() })
        let defaults = [
            HeaderField(name: "User-Agent", value: ProductVersion.product),
            HeaderField(name: "Accept", value: "image/webp,image/png,image/jpeg,*/*;q=0.8"),
            HeaderField(name: "Accept-Encoding", value: "identity"),
        ]
        // "name:" would mean "do not send"; "name;" means an empty value.
        return (defaults.filter { !names.contains($0.name.lowercased()) } + sent + kind.fields).map {
            $0.value.isEmpty ? "\($0.name);" : "\($0.name): \($0.value)"
        }
    }

    /// Whether a field can be sent unchanged. The broker has rejected all others already.
    static func isSendable(_ field: HeaderField) -> Bool {
        !field.name.isEmpty && field.name.utf8.allSatisfy { $0 > 0x20 && $0 < 0x7F && $0 != UInt8(ascii: ":") }
            && field.value.utf8.allSatisfy { ($0 >= 0x20 || $0 == 0x09) && $0 != 0x7F }
    }
}
