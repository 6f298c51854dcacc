import IPCProtocol
import JSONCoding

/// A request of Imaginary's `POST /pipeline`, without the image.
struct ImaginaryPipeline: Equatable {
    /// The most operations of a request, as with Imaginary.
    static let mostOperations = 10

    var rendition = Rendition()
    /// The parameter `key`; nil without one.
    var key: String?

    /// Reads a request's target: the operations in JSON are its parameter `operations`.
    init(target: String) throws(HTTPProblem) {
        var operations: String?
        let query = target.firstIndex(of: "?").map { target[target.index(after: $0)...] } ?? ""
        for pair in query.split(separator: "&") {
            let parts = pair.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
            guard let name = TextCoding.percentDecoded(parts[0], isQuery: true),
                let value = TextCoding.percentDecoded(parts.count > 1 ? parts[1] : "", isQuery: true)
            else { throw HTTPProblem("the query is not percent-encoded UTF-8") }
            switch name {
            case "operations": operations = value
            case "key": key = value
            default: throw HTTPProblem("the parameter \"\(name)\" is not supported")
            }
        }
        guard let operations, let steps = Operation.list(operations), !steps.isEmpty else {
            throw HTTPProblem("missing or invalid pipeline operations JSON")
        }
        if steps.count > Self.mostOperations { throw HTTPProblem("maximum allowed pipeline operations exceeded") }
        var isSized = false
        for step in steps { try apply(step, &isSized) }
    }

    private mutating func apply(_ operation: Operation, _ isSized: inout Bool) throws(HTTPProblem) {
        let name = operation.name
        switch name {
        // An image is always turned as its metadata says.
        case "autorotate": break
        case "convert":
            guard operation.parameters.contains(where: { $0.name == "type" }) else {
                throw HTTPProblem("missing required param: type")
            }
        case "fit", "smartcrop":
            if isSized { throw HTTPProblem("the operation \"\(name)\" after another size is not supported") }
            isSized = true
            (rendition.width, rendition.height) = (0, 0)
            if name == "smartcrop" {
                (rendition.method, rendition.enlargement) = (.fill, .unlessSmaller)
                rendition.position = .attention
            }
        default: throw HTTPProblem("the operation \"\(name)\" is not supported")
        }
        if operation.ignoresFailure { throw HTTPProblem("\"ignore_failure\" is not supported") }
        for parameter in operation.parameters { try apply(parameter, of: name) }
        if isSized, rendition.width == 0 || rendition.height == 0 {
            throw HTTPProblem("missing required params: height, width")
        }
    }

    private mutating func apply(_ parameter: Operation.Parameter, of operation: String) throws(HTTPProblem) {
        let isSize = operation == "fit" || operation == "smartcrop"
        switch parameter.name {
        case "width" where isSize: rendition.width = try parameter.integer(in: 0...PixelGeometry.maximumSide)
        case "height" where isSize: rendition.height = try parameter.integer(in: 0...PixelGeometry.maximumSide)
        case "quality":
            let quality = try parameter.integer(in: 0...100)
            rendition.quality = quality == 0 ? Rendition.usualQuality : quality
        case "type":
            switch parameter.value {
            case .text("jpeg"), .text("jpg"): rendition.format = .fixed(.jpeg)
            case .text("png"): rendition.format = .fixed(.png)
            case .text("webp"): rendition.format = .fixed(.webp)
            case .text("auto"): rendition.format = .accepted
            default: throw HTTPProblem("the image type is not supported: there are jpeg, png, webp and auto")
            }
        // Results have no metadata, are in sRGB, and are turned once.
        case "stripmeta", "noprofile", "norotation": try parameter.boolean()
        default:
            throw HTTPProblem("the parameter \"\(parameter.name)\" of \"\(operation)\" is not supported")
        }
    }

    struct Operation: Equatable {
        struct Parameter: Equatable {
            enum Value: Equatable {
                case number(Double)
                case text(String)
                case boolean(Bool)
                case other
            }

            var name: String
            var value: Value

            /// The value as a whole number; Imaginary takes it as text, too.
            func integer(in range: ClosedRange<Int>) throws(HTTPProblem) -> Int {
                let number: Double? =
                    switch value {
                    case .number(let number): number
                    case .text(""): 0
                    case .text(let text): Double(text)
                    default: nil
                    }
                guard let integer = number.flatMap({ Int(exactly: $0.rounded()) }), range.contains(integer) else {
                    throw HTTPProblem(
                        "the parameter \"\(name)\" must be a number from \(range.lowerBound) to \(range.upperBound)")
                }
                return integer
            }

            /// Checks that the value is a boolean; Imaginary takes it as text, too.
            func boolean() throws(HTTPProblem) {
                switch value {
                case .boolean: break
                case .text(let text) where ["", "true", "false", "1", "0", "t", "f"].contains(text.lowercased()): break
                default: throw HTTPProblem("the parameter \"\(name)\" must be true or false")
                }
            }
        }

        var name = ""
        var parameters: [Parameter] = []
        var ignoresFailure = false

        /// Reads a list of operations; nil for other JSON.
        static func list(_ text: String) -> [Operation]? {
            var operations: [Operation] = []
            var isKnown = true
            var reader = JSONReader(Array(text.utf8)[...])
            do {
                try reader.readArray { (reader) throws(MalformedJSON) in
                    var operation = Operation()
                    try reader.readObject { (reader, name) throws(MalformedJSON) in
                        switch name {
                        case "operation": operation.name = try reader.readString()
                        case "ignore_failure": operation.ignoresFailure = try reader.readBoolean()
                        case "params" where reader.nextIsObject:
                            try reader.readObject { (reader, name) throws(MalformedJSON) in
                                operation.parameters.append(Parameter(name: name, value: try value(&reader)))
                            }
                        // PHP writes an empty object as an array.
                        case "params":
                            try reader.readArray { (reader) throws(MalformedJSON) in
                                isKnown = false
                                try reader.skip()
                            }
                        default:
                            isKnown = false
                            try reader.skip()
                        }
                    }
                    operations.append(operation)
                }
                try reader.expectEnd()
            } catch { return nil }
            return isKnown ? operations : nil
        }

        private static func value(_ reader: inout JSONReader) throws(MalformedJSON) -> Parameter.Value {
            if reader.nextIsString { return .text(try reader.readString()) }
            if reader.nextIsBoolean { return .boolean(try reader.readBoolean()) }
            if reader.nextIsNumber { return try reader.readNumber().map { .number($0) } ?? .other }
            try reader.skip()
            return .other
        }
    }
}
