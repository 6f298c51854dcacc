import IPCProtocol
import Testing

/// What became of the message whose JSON text is given.
func decoded(_ text: String) throws -> ClientMessage.Decoded {
    try ClientMessage.decode(Array(text.utf8)[...]).0
}

/// The options of a `get` with `fields` beside its URL.
func options(_ fields: String) throws -> GetOptions {
    let message = try decoded("{\"type\":\"get\",\"id\":1,\"url\":\"http://a/\",\(fields)}")
    guard case .message(.get(let request)) = message else {
        Issue.record("\(fields): \(message)")
        return GetOptions()
    }
    return request.options
}

/// Checks that a `get` with `fields` beside its URL is refused, and that the complaint names `field`.
func expectBadRequest(
    _ fields: String, naming field: String, sourceLocation: SourceLocation = #_sourceLocation
) throws {
    let message = try decoded("{\"type\":\"get\",\"id\":1,\"url\":\"http://a/\",\(fields)}")
    guard case .rejected(id: 1, let error) = message else {
        Issue.record("\(fields) is accepted", sourceLocation: sourceLocation)
        return
    }
    #expect(error.code == .badRequest, sourceLocation: sourceLocation)
    #expect(error.message.hasPrefix(field + " "), "\(error.message)", sourceLocation: sourceLocation)
}
