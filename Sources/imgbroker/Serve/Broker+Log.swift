import BrokerCore
import HTTPValues
import IPCProtocol
import LinuxSystem
import SystemValues

// Lines about single requests, at the level debug.
extension Broker {
    /// Logs a message that a client has sent. Those that are answered by their text, because they repeat an earlier
    /// one, have a line for their answer alone.
    func logRequest(_ event: Event) {
        let (client, message): (ClientID, ClientMessage)
        switch event {
        case .messageReceived(let from, let received), .fileRequested(let from, let received, _):
            (client, message) = (from, received)
        case .storeReceived(let from, let request, _): (client, message) = (from, .store(request))
        default: return
        }
        var fields: [LogField] = []
        if let id = message.id { fields.append(.request(id, of: client)) }
        if let connection = clients[client] { fields.append(LogField("user", Int(connection.uid))) }
        fields.append(LogField("type", message.type))
        if let url = message.url { fields.append(LogField("url", url.text)) }
        log.debug(.request, fields)
    }

    /// Logs the last reply to a request; errors have a line of their own (`request-failed`).
    func logAnswer(_ reply: Reply, to client: ClientID) {
        guard reply.isTerminal, let id = reply.id else { return }
        switch reply {
        case .error: return
        case .image(_, let image):
            log.debug(.answer, [.request(id, of: client), LogField("source", image.source.rawValue)])
        default: log.debug(.answer, [.request(id, of: client)])
        }
    }
}

extension LogField {
    static func request(_ id: Int, of client: ClientID) -> LogField {
        LogField("request", BrokerState.name(of: id, client))
    }
}
