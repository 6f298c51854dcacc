import Digests

/// The keys by which requests are checked.
struct Secrets: Equatable, Sendable {
    struct Pair: Equatable, Sendable {
        var key: [UInt8]
        var salt: [UInt8]
    }

    struct Invalid: Error, Equatable {
        var description: String
    }

    /// The names of the keys, which are those of imgproxy's variables, and in addition that of Imaginary's key.
    static let names = ["IMGPROXY_KEY", "IMGPROXY_SALT", "IMAGINARY_KEY"]
    /// The longest file with keys in bytes.
    static let longestFile = 64 << 10

    /// The pairs that signatures are made with; without one, no signature is checked.
    var pairs: [Pair] = []
    /// The parameter `key` that Imaginary's requests must have; nil for none.
    var imaginaryKey: String?

    /// Reads the keys from variables: several pairs with commas between them, for the time of a change.
    init(_ variable: (String) -> String?) throws(Invalid) {
        let keys = try Self.list("IMGPROXY_KEY", variable)
        let salts = try Self.list("IMGPROXY_SALT", variable)
        guard keys.count == salts.count else {
            throw Invalid(description: "IMGPROXY_KEY and IMGPROXY_SALT must have the same number of values")
        }
        pairs = zip(keys, salts).map { Pair(key: $0, salt: $1) }
        imaginaryKey = variable("IMAGINARY_KEY").flatMap { $0.isEmpty ? nil : $0 }
    }

    /// Reads the keys from a file of lines `NAME=VALUE`, as systemd reads an environment. Lines with `#` are comments.
    init(file text: String) throws(Invalid) {
        var values: [String: String] = [:]
        for (number, line) in text.split(separator: "\n", omittingEmptySubsequences: false).enumerated() {
            let line = line.trimming()
            if line.isEmpty || line.hasPrefix("#") { continue }
            let parts = line.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
            guard parts.count == 2, Self.names.contains(parts[0].trimming()) else {
                throw Invalid(description: "line \(number + 1) is none of \(Self.names.joined(separator: ", "))")
            }
            values[parts[0].trimming()] = parts[1].trimming()
        }
        try self.init { values[$0] }
    }

    private static func list(_ name: String, _ variable: (String) -> String?) throws(Invalid) -> [[UInt8]] {
        guard let text = variable(name), !text.isEmpty else { return [] }
        var list: [[UInt8]] = []
        for value in text.split(separator: ",", omittingEmptySubsequences: false) {
            guard let bytes = TextCoding.bytes(ofHexadecimal: value.trimming()), !bytes.isEmpty else {
                throw Invalid(description: "\(name) is not hexadecimal")
            }
            list.append(bytes)
        }
        return list
    }

    func accept(_ signature: String, of signed: String) -> Bool {
        if pairs.isEmpty { return true }
        guard let given = TextCoding.bytes(ofBase64: signature) else { return false }
        return pairs.contains { pair in
            let message = pair.salt + Array(signed.utf8)
            return Self.areEqual(unsafe message.withUnsafeBytes { unsafe HMAC.sha256(of: $0, key: pair.key) }, given)
        }
    }

    func accept(imaginaryKey key: String?) -> Bool {
        guard let imaginaryKey else { return true }
        return Self.areEqual(Array(imaginaryKey.utf8), Array((key ?? "").utf8))
    }

    /// Compares in a time that depends on the lengths only.
    private static func areEqual(_ left: [UInt8], _ right: [UInt8]) -> Bool {
        left.count == right.count && zip(left, right).reduce(0) { $0 | ($1.0 ^ $1.1) } == 0
    }
}
