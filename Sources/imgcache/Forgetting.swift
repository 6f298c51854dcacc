import IPCProtocol
import LinuxSystem

extension Store {
    /// Removes the originals of a URL that belong to `owner` or to all (without an owner: all of them), and the rasters
    /// that only they led to. Returns the originals' keys.
    func forget(url: String, owner: UInt32?) -> [String] {
        extras.hide(url: url, owner: owner)
        guard obstacle?.state != .locked, obstacle?.state != .off else { return [] }
        let originals = withIndex { (index) throws(SQLiteError) in try index.originals(url: url, owner: owner) } ?? []
        var allRemoved = true
        for (key, digest) in originals {
            guard let name = EntryName.original(key: key) else { continue }
            allRemoved = discard(name) != .failed && allRemoved
            let rasters = withIndex { (index) throws(SQLiteError) in
                try index.hasOriginal(digest: digest) ? [] : try index.rasters(ofDigest: digest)
            }
            for raster in (rasters ?? []).compactMap({ EntryName(kind: .rasters, word: $0) }) { discard(raster) }
        }
        // Files that the index does not know yet, or that cannot be removed, are not to be found either.
        if !allRemoved || reconciliation != nil {
            forgotten.insert(url: url, owner: owner, at: now, isLasting: !allRemoved)
        }
        return originals.map(\.key)
    }

    /// Forgets once more what could not be removed before.
    func forgetAgain() {
        for (url, owner) in forgotten.takeLasting() { _ = forget(url: url, owner: owner) }
    }
}
