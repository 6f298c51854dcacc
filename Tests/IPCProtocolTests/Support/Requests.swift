/// What became of the message whose JSON text is given.
func decoded(_ text: String) throws -> ClientMessage.Decoded { try ClientMessage.decode(Array(text.utf8)[...]).0 }

/// What a message is refused with; nil if it is read.
func rejection(_ text: String) throws -> (id: Int?, code: ErrorCode, message: String)? {
    guard case .rejected(let id, let error) = try decoded(text) else { return nil }
    return (id, error.code, error.message)
}

/// Checks that a message is a bad request, and that the complaint names `field`.
func expectBadRequest(
    of text: String, id: Int? = 1, naming field: String, sourceLocation: SourceLocation = #_sourceLocation
) throws {
    let found = try #require(try rejection(text), "\(text) is accepted", sourceLocation: sourceLocation)
    #expect((found.id, found.code) == (id, .badRequest), sourceLocation: sourceLocation)
    #expect(found.message.hasPrefix(field + " "), "\(found.message)", sourceLocation: sourceLocation)
}

/// The text of a `get` with `fields` beside its URL.
private func get(_ fields: String) -> String { "{\"type\":\"get\",\"id\":1,\"url\":\"http://a/\",\(fields)}" }

/// The options of a `get` with `fields` beside its URL.
func options(_ fields: String) throws -> GetOptions {
    guard case .message(.get(let request)) = try decoded(get(fields)) else {
        Issue.record("\(fields) is refused")
        return GetOptions()
    }
    return request.options
}

/// The complaint about a `get` with `fields` beside its URL; nil if it is accepted.
func complaint(_ fields: String) throws -> String? {
    let found = try rejection(get(fields))
    #expect(found?.code ?? .badRequest == .badRequest)
    return found?.message
}

/// Checks that a `get` with `fields` beside its URL is refused, and that the complaint names `field`.
func expectBadRequest(
    _ fields: String, naming field: String, sourceLocation: SourceLocation = #_sourceLocation
) throws { try expectBadRequest(of: get(fields), naming: field, sourceLocation: sourceLocation) }

/// Checks that the options of a request and their transform are read as they are written.
func expectReadAsWritten(_ options: GetOptions, sourceLocation: SourceLocation = #_sourceLocation) throws {
    let request = GetRequest(id: 1, url: try SourceURL("http://h/"), options: options)
    #expect(GetRequest(decoding: request.encoded[...]) == request, sourceLocation: sourceLocation)
    let transform = options.variant.transform(scaleDownLimit: 1)
    #expect(Transform(decoding: transform.encoded[...]) == transform, sourceLocation: sourceLocation)
}
