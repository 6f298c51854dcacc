package import HTTPValues
package import JSONCoding

/// What a download worker reads from descriptor 4 instead of its arguments, which other users can see: one JSON object.
package struct FetchPrivate: Equatable, Sendable, FieldList {
    /// The URL of the proxy that all transfers go through, with a user name and a password if it has them; nil for
    /// none.
    package var proxy: String?
    /// The user name and password for the proxy; nil for those in its URL, or none.
    package var proxyCredentials: Credentials?
    /// Root certificates (PEM) that are trusted besides those of the system; nil for none.
    package var roots: String?

    package init(proxy: String? = nil, proxyCredentials: Credentials? = nil, roots: String? = nil) {
        self.proxy = proxy
        self.proxyCredentials = proxyCredentials
        self.roots = roots
    }

    package static var blank: FetchPrivate { FetchPrivate() }

    package mutating func list(_ fields: inout Fields) {
        fields.string("proxy", &proxy)
        fields.object("proxyCredentials", &proxyCredentials)
        fields.string("roots", &roots)
    }
}
