extension Store {
    /// Removes the originals of a URL that are public or belong to `owner` (without an owner: all of them), and the
    /// rasters that only they led to. Returns the originals' keys.
    func forget(url: String, owner: UInt32?) -> [String] {
        extras.hide(url: url, owner: owner)
        guard obstacle?.isOutOfReach != true else { return [] }
        let errors = databaseErrors
        let originals = originals(url: url, owner: owner)
        var allRemoved = true
        for (key, digest) in originals {
            guard let name = EntryName.original(key: key) else { continue }
            allRemoved = discard(name) != .failed && allRemoved
            if !hasOriginal(digest: digest) { discard(.rasters, ofDigest: digest) }
        }
        // An order for each URL that anyone removes would have no bound.
        let isStill = small == nil && sources[0].still.mayHaveOriginal(url: url)
        allRemoved = commitRemovals(after: errors) && !isStill && allRemoved
        // Files that the index does not know yet, and entries that cannot be removed, count as removed too.
        if !allRemoved || reconciliation != nil {
            forgotten.insert(url: url, owner: owner, at: now, hasFailed: !allRemoved)
        }
        return originals.map(\.key)
    }

    /// Removes all originals with these digests, and their rasters. If that fails, and while there may be files that
    /// the index does not know, it clears everything: unlike a URL, a digest cannot be compared with entries that come
    /// later.
    func discard(digests: [String]) {
        guard obstacle?.isOutOfReach != true else { return }
        let errors = databaseErrors
        var allRemoved = true
        for digest in digests {
            for kind in EntryKind.allCases { allRemoved = discard(kind, ofDigest: digest) && allRemoved }
        }
        if !commitRemovals(after: errors) || !usesIndexOfAll || !allRemoved || reconciliation != nil {
            clear(job: nil, olderThanSeconds: nil)
        }
    }

    /// Commits removals. Returns whether that succeeded, and no database has failed since there were `errors`, so that
    /// all entries were listed that are in an index.
    private func commitRemovals(after errors: Int) -> Bool {
        commitSmall() && databaseErrors == errors && index != nil
    }

    /// Returns whether all could be removed.
    @discardableResult
    private func discard(_ kind: EntryKind, ofDigest digest: String) -> Bool {
        names(kind, ofDigest: digest).reduce(true) { discard($1) != .failed && $0 }
    }

    /// Repeats the orders whose files could not be removed.
    func forgetAgain() {
        for (url, owner) in forgotten.takeFailed() { _ = forget(url: url, owner: owner) }
    }
}
