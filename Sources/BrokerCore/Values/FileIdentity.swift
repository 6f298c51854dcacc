package import Digests
package import HTTPValues

/// The identity of a file and of its contents, as the kernel reports it. A file that was modified has another one.
package struct FileIdentity: Hashable, Sendable {
    package var device: UInt64
    package var inode: UInt64
    package var size: Int
    /// The time of the last modification, in nanoseconds since 1970.
    package var modified: Int
    /// The time of the last change of the contents or of the metadata, in nanoseconds since 1970.
    package var changed: Int
    /// The user who has sent the file, if a process states all the above for it (FUSE): that process can claim another
    /// file's identity, so users do not share the contents. Nil for files of which the kernel knows it.
    package var user: UInt32?
    /// The digest of the bytes, if they cannot change (a sealed memfd): whoever sends the same bytes means the same
    /// contents.
    package var digest: ContentDigest?

    package init(
        device: UInt64, inode: UInt64, size: Int, modified: Int, changed: Int, user: UInt32? = nil,
        digest: ContentDigest? = nil
    ) {
        (self.device, self.inode, self.size) = (device, inode, size)
        (self.modified, self.changed, self.user, self.digest) = (modified, changed, user, digest)
    }

    /// The name of the contents among the originals. No request can name it, because only http and https URLs are
    /// accepted.
    package var url: SourceURL {
        if let digest { return SourceURL(canonical: "file:sha256.\(digest.hexadecimal)") }
        let owner = user.map { ".user\($0)" } ?? ""
        return SourceURL(canonical: "file:\(device).\(inode).\(size).\(modified).\(changed)\(owner)")
    }
}

extension SourceURL {
    var isFile: Bool { text.utf8.starts(with: "file:".utf8) }
}

/// A file as a helper has found it.
package struct FileFacts: Equatable, Sendable {
    package var identity: FileIdentity
    /// Whether the file was changed so recently that another change might leave its times as they are.
    package var isRecent: Bool
    /// Whether it is in a local file system, so that `statx` tells every client of a change without asking another
    /// process.
    package var isLocal: Bool

    package init(_ identity: FileIdentity, isRecent: Bool, isLocal: Bool) {
        (self.identity, self.isRecent, self.isLocal) = (identity, isRecent, isLocal)
    }
}
